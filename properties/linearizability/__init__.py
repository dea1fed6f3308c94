"""Whether a recorded concurrent history could have been one order of atomic steps of the specification."""
