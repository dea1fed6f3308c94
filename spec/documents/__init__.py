"""What is written down about a cache: documents, their contracts, and their canonical form.

A document is a frozen attrs class. Its contracts are functions, each with one error code, told in the
order in which they are declared: a later one may rely on the earlier ones. `contracts` has the frame,
`canonical` the bytes from which digests are made; every other module is a kind of document or a part of
one, named after it: `manifest_record` what is written down, `manifest_digests` and `manifest_derived` what
follows, `manifest` the contracts.
"""
