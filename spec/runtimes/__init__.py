"""Four runtimes as transition systems: what their sources keep, where they move it, and when.

Each module models one release, as far as the sources pinned in `pins.json` are described: a cache object
that its caller holds (`transformers`), a request beside a scheduler and a cache manager (`vllm`), a
request that refers to a prefix tree (`sglang`), and a sequence within an executor (`tensorrt_llm`). They
are models of sources, no runs of them. The modules named `..._receipts` add what a wrapper has to own
before every coordinate of `kvspec.spec.canonical_lifecycle` can be told. None is ranked.
"""
