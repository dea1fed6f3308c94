"""A small real decoder with transactional cache layouts, in torch."""
