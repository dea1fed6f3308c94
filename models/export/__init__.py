"""The specification as SMT-LIB 2, TLA+ and Promela text, for checkers from outside."""
