"""Small systems with known answers, on which the engines are tested and compared."""
