"""The specification as Z3 formulas, for any number of handles, layers and tokens."""
