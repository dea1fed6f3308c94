"""What must hold of the systems, and the means to test it."""
