"""Rows that all hold one number, so that it can be told whose they are."""

import torch


def filled(layout, value, count, submit=None):
    """An open append whose rows all hold ``value``."""
    staging = layout.begin(count) if submit is None else layout.begin(count, submit)
    for layer, part in layout.shape.cells():
        rows = torch.full(layout.shape.rows(count), float(value), dtype=layout.shape.dtype)
        staging.stage(layer, part, rows)
    return staging


def add(layout, value, count):
    """Publish rows that all hold ``value``."""
    return layout.install(filled(layout, value, count))


def shown(readable):
    """The K rows of layer 0 of a layout or snapshot as one number each."""
    return readable.read(0)[0][0, 0, :, 0].tolist()
