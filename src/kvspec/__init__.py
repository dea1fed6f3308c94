"""An executable, formally checked specification of the KV-cache lifecycle of LLM serving.

Read `kvspec.spec` for what a cache may do, `kvspec.models` for the ways to run that text,
`kvspec.properties` for what must hold, and `kvspec.counterexamples` for what goes wrong otherwise.
"""

from importlib.metadata import version

__version__ = version("kvspec")
__all__ = ["__version__"]
