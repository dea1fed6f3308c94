"""Mechanisms of the torch cache that a system of the specification speaks of, each as a backend with faults.

A module here has a class that performs the events of one system on real rows, and `fault_for`, which
tells the name of the fault that a mutation of that system has there, or None.
"""
