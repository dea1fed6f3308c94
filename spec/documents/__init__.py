"""What is written down about a cache: documents, their contracts, and their canonical form.

A document is a frozen attrs class. Its contracts are functions, each with one error code, told in the
order in which they are declared: a later one may rely on the earlier ones. `contracts` has the frame,
`canonical` the bytes from which digests are made; every other module is one kind of document.
"""
