"""The chapter on layouts: its Python examples, its commands and its pictures are what they say."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from glueball.cli.commands import commands
from scripts import make_pictures

CHAPTER = Path(__file__).parent.parent / "docs" / "layouts.md"
TEXT = CHAPTER.read_text(encoding="utf-8")
CONSOLE = [
    block
    for part in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    for block in re.split(r"^\$ ", part, flags=re.M)[1:]
]


def test_the_examples_run():
    blocks = re.findall(r"```pycon\n(.*?)```", TEXT, re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, CHAPTER.name, str(CHAPTER), 0)
    assert len(examples.examples) > 10
    said: list[str] = []
    results = doctest.DocTestRunner().run(examples, out=said.append)
    assert results.failed == 0, "".join(said)


@pytest.mark.parametrize("block", CONSOLE)
def test_the_commands_print_what_is_shown(block: str):
    line, _, expected = block.partition("\n")
    command, _, tail = line.partition(" | tail -n ")
    result = CliRunner().invoke(commands, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert (lines[-int(tail) :] if tail else lines) == expected.rstrip("\n").splitlines()


def test_every_picture_of_the_chapter_is_drawn():
    shown = {CHAPTER.parent / link for link in re.findall(r"!\[.*?\]\((.*?)\)", TEXT)}
    drawn = set(make_pictures.draw())
    assert shown <= drawn
    assert len(shown) >= 8
