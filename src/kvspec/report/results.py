"""The table of results: what was checked, on what, how much of it, in what time, with which verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvspec.report.tables import markdown_table, text_table

HEAD = ("check", "on", "extent", "time", "verdict")
Result = Mapping[str, Any]


def result_rows(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """A row for each stage of `kvspec verify`."""
    rows: list[tuple[str, ...]] = []
    for result in results:
        what, where, extent = _told(result)
        rows.append((what, where, extent, f"{result['wall_seconds']:.1f} s", result["verdict"]))
    return rows


def result_table(results: Iterable[Result]) -> str:
    """The table as plain text."""
    return text_table(HEAD, result_rows(results), right=(3,))


def result_markdown(results: Iterable[Result]) -> str:
    """The table as Markdown."""
    return markdown_table(HEAD, result_rows(results), right=(3,))


def summary_rows(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """A row for each system, with all that was checked of it, and one for every other stage."""
    rows: list[tuple[str, ...]] = []
    systems: dict[str, list[Result]] = {}
    for result in results:
        if result["command"] in SYSTEM_STAGES and "system" in result:
            systems.setdefault(str(result["system"]), []).append(result)
        else:
            rows.extend(result_rows([result]))
    return [*(_system_row(name, found) for name, found in systems.items()), *rows]


def summary_markdown(results: Iterable[Result]) -> str:
    """The short table as Markdown."""
    return markdown_table(HEAD, summary_rows(results), right=(3,))


SYSTEM_STAGES = ("explore", "prove", "mutants", "atlas")
"""The stages that are told together for a system, in this order."""


def _system_row(name: str, found: Sequence[Result]) -> tuple[str, ...]:
    parts: list[str] = []
    for command in SYSTEM_STAGES:
        of_kind = [result for result in found if result["command"] == command]
        if command == "explore" and of_kind:
            states = sum(result.get("states", 0) for result in of_kind)
            parts.append(f"{len(of_kind)} instances, {states:,} states")
        else:
            parts.extend(_told(result)[2] for result in of_kind)
    from kvspec.cli.verdicts import worst

    seconds = sum(result["wall_seconds"] for result in found)
    verdict = worst(result["verdict"] for result in found)
    return "system", name, "; ".join(parts), f"{seconds:.1f} s", verdict


def within(preemptions: int) -> str:
    """A bound of preemptions, in words."""
    return f"at most {preemptions} preemption{'s' * (preemptions != 1)}"


def _told(result: Result) -> tuple[str, str, str]:
    """What was checked, on what, and how much there was of it."""
    command = str(result["command"])
    if command == "explore" and "states" in result:
        extent = f"{result['states']:,} states, {result['transitions']:,} transitions"
        return "explore", f"{result['system']}/{result['instance']}", extent
    if command == "prove" and "obligations" in result:
        extent = f"{result['proved']:,} of {result['obligations']:,} obligations"
        return "prove", f"{result['system']}, any sizes", extent
    if command == "mutants" and "total" in result:
        extent = (
            f"{result['killed']} of {result['total']} killed, {result['equivalent']} equivalent"
        )
        return "mutants", str(result.get("system", "")), extent
    if command == "replay" and "replays" in result:
        held = sum(each["verdict"] == "holds" for each in result["replays"])
        return "replay", "the library", f"{held} of {len(result['replays'])} replays"
    if command == "atlas" and "cases" in result:
        cases = result["cases"]
        shown = sum(each["verdict"] == "holds" for each in cases)
        replayed = sum(bool(each["cache"]) for each in cases)
        extent = f"{shown} of {len(cases)} cases of {result['groups']} groups shown"
        extent += f", {replayed} on the torch cache" * bool(replayed)
        return "atlas", str(result["system"]), extent
    if command == "test" and "examples" in result:
        cache = str(result["backend"]).rpartition(":")[2]
        extent = f"{result['touched']:,} of {result['transitions']:,} transitions taken"
        return "test", f"{cache}, {result['system']}/{result['instance']}", extent
    if command == "linearize" and "histories" in result:
        histories = result["histories"]
        told = sum(each["verdict"] == each["expected"] for each in histories)
        return "histories", "stored", f"{told} of {len(histories)} verdicts as they must be"
    if command == "interleave" and "replays" in result:
        replays = result["replays"]
        held = sum(each["verdict"] == "holds" for each in replays)
        missing = len(result.get("missing", ()))
        extent = f"{held} of {len(replays)} replays"
        return "interleavings", "stored", extent + f", none of {missing} faults" * bool(missing)
    if command == "interleave" and "scenarios" in result:
        scenarios = result["scenarios"]
        orders = sum(sum(each["schedules"]) for each in scenarios)
        extent = f"{orders:,} orders of {len(scenarios)} scenarios"
        return "interleavings", within(result["preemptions"]), extent
    if command == "formulas" and "identities" in result:
        identities = result["identities"]
        held = sum(each["verdict"] == "holds" for each in identities)
        return "formulas", "all values", f"{held} of {len(identities)} identities"
    if command == "check" and "documents" in result:
        kinds = result["documents"]
        cases = [case for kind in kinds for case in kind["cases"]]
        failed = sum(case["problem"] is None for case in cases)
        extent = f"{failed} of {len(cases)} one-field changes fail by their own code"
        return "documents", f"{len(kinds)} kinds", extent
    return str(result["stage"]), "", str(result.get("reason", "")).splitlines()[0][:60]
