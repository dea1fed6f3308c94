"""The claims about the core system, collected by name.

Importing this module alone gives an empty collection; `kvspec.properties.core` imports the modules that
fill it: one for each concept, and `progress` for what can and must happen.
"""

from kvspec.spec.core import system
from kvspec.spec.language import Properties

core = Properties(system)
