"""The normative text: one transition system a module, in reading order."""
