"""The trace format, its reader and writer, replay, pictures, and a library of traces."""
