"""Lower: the small part of Python that generated source is written in, to LLVM.

Generated functions use integers of 64 bits, truth values, arrays of such integers, `if`, `for` over
ranges, and no calls. numba compiles them as well (a test does so), but takes twenty times as long, as
it must infer what here is known: a name holds a truth value if what is first assigned to it is one.
Both sides of a conditional expression are computed, which is right since terms are total.
"""

from __future__ import annotations

import ast
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

I64 = ir.IntType(64)
I1 = ir.IntType(1)

_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "sdiv",
    ast.RShift: "ashr",
    ast.LShift: "shl",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
}
_COMPARE = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


def lower(source: str, arrays: frozenset[str]) -> tuple[str, str, tuple[bool, ...]]:
    """LLVM text of the one function of a source, its name, and which parameters are arrays."""
    (function,) = ast.parse(source).body
    if not isinstance(function, ast.FunctionDef):
        raise TypeError(f"found {type(function).__name__}, expected one function in the source")
    return _Lowering(function, arrays).run()


class _Lowering:
    """One function on its way to LLVM; every name is a slot of the stack, which LLVM promotes."""

    def __init__(self, function: ast.FunctionDef, arrays: frozenset[str]) -> None:
        self.function = function
        self.names = [argument.arg for argument in function.args.args]
        self.kinds = tuple(name in arrays for name in self.names)
        self.module = ir.Module(name=function.name)
        types = [I64.as_pointer() if array else I64 for array in self.kinds]
        self.made = ir.Function(self.module, ir.FunctionType(I64, types), function.name)
        self.entry = ir.IRBuilder(self.made.append_basic_block("entry"))
        self.at = ir.IRBuilder(self.made.append_basic_block("body"))
        self.slots: dict[str, Any] = {}
        self.arrays: dict[str, Any] = {}
        self.loops: list[tuple[Any, Any]] = []

    def run(self) -> tuple[str, str, tuple[bool, ...]]:
        """Lower the body."""
        body = self.at.block
        for name, array, value in zip(self.names, self.kinds, self.made.args, strict=True):
            if array:
                value.add_attribute("noalias")
                self.arrays[name] = value
            else:
                self.entry.store(value, self._slot(name, I64))
        self._block(self.function.body)
        if not self.at.block.is_terminated:
            self.at.ret(ir.Constant(I64, 0))
        self.entry.branch(body)
        return str(self.module), self.function.name, self.kinds

    def _slot(self, name: str, kind: Any) -> Any:
        if name not in self.slots:
            self.slots[name] = self.entry.alloca(kind, name=name)
        return self.slots[name]

    def _block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.at.block.is_terminated:
                return
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[target], value=value):
                self._store(target, self._value(value))
            case ast.AugAssign(target=target, op=op, value=value):
                old = self._value(self._as_read(target))
                self._store(target, self._binary(op, old, self._value(value)))
            case ast.If(test=test, body=body, orelse=orelse):
                self._if(self._truth(test), body, orelse)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=args), body=body):
                self._for(name, args, body)
            case ast.Break():
                self.at.branch(self.loops[-1][1])
            case ast.Continue():
                self.at.branch(self.loops[-1][0])
            case ast.Return(value=ast.expr() as value):
                self.at.ret(self._value(value))
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise TypeError(f"generated source has `{ast.unparse(node)}`, which is not lowered")

    @staticmethod
    def _as_read(target: ast.expr) -> ast.expr:
        if isinstance(target, ast.Name):
            return ast.Name(target.id, ast.Load())
        if isinstance(target, ast.Subscript):
            return ast.Subscript(target.value, target.slice, ast.Load())
        raise TypeError(
            f"generated source assigns to `{ast.unparse(target)}`, which is not lowered"
        )

    def _store(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.at.store(value, self._slot(target.id, value.type))
        elif isinstance(target, ast.Subscript):
            self.at.store(value, self._pointer(target))

    def _pointer(self, node: ast.Subscript) -> Any:
        if not isinstance(node.value, ast.Name):
            raise TypeError(f"generated source indexes `{ast.unparse(node)}`, which is not lowered")
        return self.at.gep(self.arrays[node.value.id], [self._value(node.slice)], inbounds=True)

    def _if(self, test: Any, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        then = self.made.append_basic_block()
        after = self.made.append_basic_block()
        other = self.made.append_basic_block() if orelse else after
        self.at.cbranch(test, then, other)
        for block, statements in ((then, body), (other, orelse)):
            if statements:
                self.at.position_at_end(block)
                self._block(statements)
                if not self.at.block.is_terminated:
                    self.at.branch(after)
        self.at.position_at_end(after)

    def _for(self, name: str, args: list[ast.expr], body: list[ast.stmt]) -> None:
        bounds = [self._value(arg) for arg in args]
        first, last = bounds if len(bounds) > 1 else (ir.Constant(I64, 0), bounds[0])
        count = self._slot(f"{name}.next{len(self.made.blocks)}", I64)
        self.at.store(first, count)
        head, inner, following, after = (self.made.append_basic_block() for _ in range(4))
        self.at.branch(head)
        self.at.position_at_end(head)
        here = self.at.load(count)
        self.at.cbranch(self.at.icmp_signed("<", here, last), inner, after)
        self.at.position_at_end(inner)
        self.at.store(here, self._slot(name, I64))
        self.loops.append((following, after))
        self._block(body)
        self.loops.pop()
        if not self.at.block.is_terminated:
            self.at.branch(following)
        self.at.position_at_end(following)
        self.at.store(self.at.add(self.at.load(count), ir.Constant(I64, 1)), count)
        self.at.branch(head)
        self.at.position_at_end(after)

    def _truth(self, node: ast.expr) -> Any:
        value = self._value(node)
        if value.type == I1:
            return value
        return self.at.icmp_signed("!=", value, ir.Constant(I64, 0))

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool(value)):
                return ir.Constant(I1, int(value))
            case ast.Constant(value=int(value)):
                return ir.Constant(I64, value)
            case ast.Name(id=name):
                return self.at.load(self.slots[name])
            case ast.Subscript():
                return self.at.load(self._pointer(node))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self._value(left), self._value(right))
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, operand)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                sides = self._value(left), self._value(right)
                return self.at.icmp_signed(_COMPARE[type(op)], *sides)
            case ast.BoolOp(op=op, values=values):
                return self._logic(op, [self._truth(value) for value in values])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                sides = self._value(body), self._value(orelse)
                return self.at.select(self._truth(test), *sides)
            case ast.Call(func=ast.Name(id="max"), args=[left, right]):
                one, two = self._value(left), self._value(right)
                return self.at.select(self.at.icmp_signed(">", one, two), one, two)
        raise TypeError(f"generated source has `{ast.unparse(node)}`, which is not lowered")

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        return getattr(self.at, _BINARY[type(op)])(left, right)

    def _unary(self, op: ast.unaryop, operand: ast.expr) -> Any:
        if isinstance(op, ast.Not):
            return self.at.xor(self._truth(operand), ir.Constant(I1, 1))
        value = self._value(operand)
        return self.at.not_(value) if isinstance(op, ast.Invert) else self.at.neg(value)

    def _logic(self, op: ast.boolop, values: list[Any]) -> Any:
        join = self.at.and_ if isinstance(op, ast.And) else self.at.or_
        result = values[0]
        for value in values[1:]:
            result = join(result, value)
        return result
