"""What a notebook shows of a run."""

import sys
import types
from collections.abc import Generator

import pytest
from helpers.run_events import run_events, started

from accel_train.events import Event, Notice, ReportWritten, Resumed, Stopped
from accel_train.loggers.notebook import LiveRun, NotebookLogger, can_display, in_notebook


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def shown(*events: Event) -> list[dict[str, str]]:
    """Return all that is displayed while a second passes between two events."""
    bundles: list[dict[str, str]] = []
    clock = Clock()
    logger = NotebookLogger(bundles.append, clock)
    for event in events:
        clock.seconds += 1
        logger(event)
    return bundles


def test_finished_run_is_shown_as_a_table() -> None:
    last = shown(*run_events(), ReportWritten("runs/digits-1/report.html"))[-1]
    text, page = last["text/plain"], last["text/html"]
    assert text.startswith("run            runs/digits-1\n")
    assert "    1/2      0.4123    0.2780        0.9031  ★            –       0.05" in text
    assert "\nended          all epochs done\n" in text
    assert "report         runs/digits-1/report.html" in text
    assert page.count("<tr>") == 3
    assert ">2/2</td>" in page
    assert "<pre>run            runs/digits-1" in page


def test_progress_is_shown_between_epochs() -> None:
    texts = [bundle["text/plain"] for bundle in shown(*run_events())]
    assert any("epoch 1/2  43 %  local loss 0.3333  61 images/s" in text for text in texts)
    assert "epoch 2/2  100 %" not in texts[-1]


def test_updates_redraw_twice_a_second_at_most() -> None:
    bundles: list[dict[str, str]] = []
    logger = NotebookLogger(bundles.append, lambda: 0.0)
    events = [event for event in run_events() if event.kind in ("run", "update")]
    for event in events:
        logger(event)
    assert len(bundles) == 1


def test_notes_and_the_reason_of_a_stop_are_shown() -> None:
    stopped = Stopped("SIGTERM", update=30, exit_code=143)
    events = (*run_events()[:30], Resumed(1, 20, 3.0), Notice("a\x1b[31m note"), stopped)
    text = shown(*events)[-1]["text/plain"]
    assert "\nresumed at epoch 1 of 2, update 20\n" in text
    assert "note: a?[31m note" in text or "\x1b" not in text
    assert "SIGTERM" in text.splitlines()[-1]


def test_names_cannot_become_markup() -> None:
    bundles = shown(started(run_folder="<img onerror>", data="<b>"), Notice("<script>alert(1)</script>"))
    assert "<script>" not in bundles[-1]["text/html"]
    assert "<img" not in bundles[-1]["text/html"]
    assert "&lt;img onerror&gt;" in bundles[-1]["text/html"]


def test_only_a_kernel_is_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    terminal = types.SimpleNamespace(get_ipython=types.SimpleNamespace)
    monkeypatch.setitem(sys.modules, "IPython", terminal)  # type: ignore[arg-type]
    assert not in_notebook()
    kernel = types.SimpleNamespace(session=types.SimpleNamespace(pid=-1))
    shell = types.SimpleNamespace(kernel=kernel)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    assert in_notebook()
    assert not can_display()  # a fork of the kernel


def test_events_of_a_live_run_are_shown_or_looped_over() -> None:
    seen: list[int] = []

    def events() -> Generator[Event, None, None]:
        for event in run_events():
            seen.append(1)
            yield event

    assert list(LiveRun(events())) == run_events()
    LiveRun(events())._ipython_display_()
    assert len(seen) == 2 * len(run_events())
    left = LiveRun(events())
    next(left)
    left.close()
    assert next(left, None) is None
