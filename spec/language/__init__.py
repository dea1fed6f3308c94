"""The embedded language in which the specification is written.

Reading order: `expr` (trees and operators), `sorts` (the classes that name types), `ops` (formulas
without an operator), `variables`, `actions`, `modules` and
`extensions` (composition), `properties`, `instances`,
`show` (readable text). Everything an engine needs is in these trees; this package imports attrs alone.
"""

from kvspec.spec.language.actions import Action, Assignment, Guard, Step
from kvspec.spec.language.errors import DefinitionError
from kvspec.spec.language.expr import (
    FALSE,
    TRUE,
    Apply,
    Bijective,
    Const,
    Expr,
    Fired,
    MapSymbol,
    Op,
    Quantifier,
    Read,
    Symbol,
    Type,
    Variant,
    same,
    walk,
)
from kvspec.spec.language.extensions import Extension, ExtensionStep
from kvspec.spec.language.instances import Counts, Instance, Limit, instance, limit
from kvspec.spec.language.modules import Module, System
from kvspec.spec.language.ops import (
    after,
    all_of,
    any_of,
    bijective,
    exists,
    fired,
    forall,
    implies,
    is_some,
    one_of,
    the,
    where,
)
from kvspec.spec.language.properties import Fairness, Properties, Property, strong, weak
from kvspec.spec.language.sorts import Bool, Enum, Map, Natural, Open, Option, member, none, type_of
from kvspec.spec.language.variables import ANY, ErrorCode, Variable

__all__ = [
    "ANY",
    "FALSE",
    "TRUE",
    "Action",
    "Apply",
    "Assignment",
    "Bijective",
    "Bool",
    "Const",
    "Counts",
    "DefinitionError",
    "Enum",
    "ErrorCode",
    "Expr",
    "Extension",
    "ExtensionStep",
    "Fairness",
    "Fired",
    "Guard",
    "Instance",
    "Limit",
    "Map",
    "MapSymbol",
    "Module",
    "Natural",
    "Op",
    "Open",
    "Option",
    "Properties",
    "Property",
    "Quantifier",
    "Read",
    "Step",
    "Symbol",
    "System",
    "Type",
    "Variable",
    "Variant",
    "after",
    "all_of",
    "any_of",
    "bijective",
    "exists",
    "fired",
    "forall",
    "implies",
    "instance",
    "is_some",
    "limit",
    "member",
    "none",
    "one_of",
    "same",
    "strong",
    "the",
    "type_of",
    "walk",
    "weak",
    "where",
]
