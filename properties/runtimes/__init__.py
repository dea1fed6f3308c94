"""What holds of the runtimes' models: claims, and why their receipts follow the canonical lifecycle."""
