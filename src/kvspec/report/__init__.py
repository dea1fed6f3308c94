"""The readable specification: transition diagrams, pictures of traces, tables of claims."""
