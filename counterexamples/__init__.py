"""The trace format, its reader and writer, and replay."""
