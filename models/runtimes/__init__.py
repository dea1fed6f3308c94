"""Caches of real libraries, held against the core system: worked adapters and a wrapper that keeps its rules.

Modelled: the caches of Hugging Face Transformers as one library, in the two releases whose calls differ
(4.57.0 and 5.24), driven by a tiny random Llama. Left out: every other runtime, which `kvspec.spec.runtimes`
describes from its sources. Transformers is an extra, loaded when an adapter is made.

Reading order: `transformers_api` (what differs between releases), `transformers_model` (the decoder),
`transformers_calls` (a forward call that stops between layers), `transformers_adapter` (the library's own
caches), `transactional` and `batch_rows` (the wrapper), `transactional_adapter`.
"""
