"""A solver in a process of its own: JSON requests on standard input, answers on standard output.

A request holds SMT-LIB 2 text, so that the verdict is of the very text that is exported, and a
fresh context each time makes the answer independent of what was asked before. A process can be
stopped when a solver does not keep to its time limit, and a crash takes nothing with it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from typing import Any

SEED = 0

CVC5_OPTIONS = {
    "unsat": ({}, {"full-saturate-quant": "true"}, {"finite-model-find": "true"}),
    "sat": ({"finite-model-find": "true"}, {}),
}
"""What cvc5 is asked to try in turn, by the answer that is expected."""


def ask_z3(text: str, seconds: float) -> tuple[str, str]:
    """Z3's answer to one problem, and its reason if it has none."""
    import z3

    solver = z3.Solver(ctx=z3.Context())
    solver.set("random_seed", SEED)
    solver.set("timeout", max(1, int(seconds * 1000)))
    try:
        solver.from_string(text)
        answer = str(solver.check())
    except z3.Z3Exception as error:
        return "unknown", f"z3: {error}"
    return answer, solver.reason_unknown() if answer == "unknown" else ""


def ask_cvc5(text: str, seconds: float, expect: str) -> tuple[str, str]:
    """cvc5's answer, trying its strategies in turn within the time."""
    reason = ""
    end = time.monotonic() + seconds
    for place, options in enumerate(CVC5_OPTIONS[expect]):
        left = end - time.monotonic()
        if left <= 0:
            return "unknown", reason or "timeout"
        share = left / 2 if place + 1 < len(CVC5_OPTIONS[expect]) else left
        answer, reason = _cvc5_once(text, share, options)
        if answer != "unknown":
            return answer, ""
    return "unknown", reason


def _cvc5_once(text: str, seconds: float, options: dict[str, str]) -> tuple[str, str]:
    import cvc5

    solver = cvc5.Solver()
    solver.setOption("seed", str(SEED))
    solver.setOption("tlimit-per", str(max(1, int(seconds * 1000))))
    for name, value in options.items():
        solver.setOption(name, value)
    parser = cvc5.InputParser(solver)
    # cvc5 makes an answer other than the expected one an error; here it is to give its own answer.
    blind = re.sub(r"\(set-info :status \w+\)", "", text)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, blind, "obligation")
    symbols = parser.getSymbolManager()
    answers: list[str] = []
    try:
        while not (command := parser.nextCommand()).isNull():
            said = str(command.invoke(solver, symbols)).strip()
            if said in ("sat", "unsat", "unknown"):
                answers.append(said)
            elif said:
                return "unknown", f"cvc5: {said}"
    except RuntimeError as error:
        return "unknown", f"cvc5: {error}"
    answer = answers[-1] if answers else "unknown"
    return answer, "timeout or incomplete" if answer == "unknown" else ""


def answer_request(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request: result, reason, seconds."""
    start = time.perf_counter()
    if request["solver"] == "cvc5":
        result, reason = ask_cvc5(request["text"], request["seconds"], request["expect"])
    else:
        result, reason = ask_z3(request["text"], request["seconds"])
    return {"result": result, "reason": reason, "seconds": time.perf_counter() - start}


def main() -> None:
    """Answer requests until there are none, or nobody listens.

    An interrupt at the terminal is for the process that asks: it ends this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for line in sys.stdin:
        if not line.endswith("\n"):  # the one who asks ended in the middle of a request
            return
        answer = json.dumps(answer_request(json.loads(line)))
        try:
            sys.stdout.write(answer + "\n")
            sys.stdout.flush()
        except BrokenPipeError:
            # Python writes what is left once more at its end, and would complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return


if __name__ == "__main__":
    main()
