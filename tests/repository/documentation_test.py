"""Runs what README.md and the pages under docs/ show, each page in a scratch folder that looks like
the repository's root, and checks what else must hold of pages: links lead somewhere, the README is
short, pages of design name no times.

A block marked `sh` must exit 0. In a block marked `console` each line after "$ " is a command, and
what follows is what it must print: "..." stands for anything within a line, a line "..." for any
lines, and a last line "[exit status N]" for a status other than 0. A line with << goes on to the
line END.

usage: documentation_test.py CONVGRAD
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import tool_environment

CONVGRAD = None
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHER_PAGES = [ROOT / name for name in
               ("CHANGELOG.md", "data/README.md", "src/README.md", "tests/peers/README.md")]

BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(\w*)\n.*?^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = {"cmake", "cpp", "python", "text", "yaml"}
COMMAND = re.compile(r"(?:.*<<'END'.*\n(?:.*\n)*?END\n)|(?:.*\\\n)*.*\n")
STATUS = re.compile(r"\[exit status (\d+)\]\n\Z")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
# The time that a busy machine adds.
NOISE = re.compile(r"^(noise: .*|convgrad: warning: .*: faster than the measured peaks allow)\n",
                   re.MULTILINE)
TIME = re.compile(r"\d (ms|us|milliseconds|microseconds)\b")
MOST_README_LINES = 200


def text_of(page):
    return page.read_text(encoding="utf-8")


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def commands(kind, block):
    """Yields (command, expected output or None, expected status)."""
    if kind == "sh":
        yield block, None, 0
        return
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command = COMMAND.match(part).group()
        expected = part[len(command):]
        status = STATUS.search(expected)
        yield command, STATUS.sub("", expected), int(status.group(1)) if status else 0


def pattern(expected):
    lines = [r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
             for line in expected.splitlines()]
    return "".join(lines)


def failure_of(folder, cache, command, expected, status):
    """Runs a command; why it is not what the page says, or None."""
    environment = os.environ | {"PATH": f"{folder}/bin:{os.environ['PATH']}",
                                "XDG_CACHE_HOME": cache}
    done = subprocess.run(["sh", "-euc", command], cwd=folder, env=environment, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != status:
        return f"exits with {done.returncode}, not {status}:\n{command}\n{done.stdout}"
    if expected is not None and not re.fullmatch(pattern(expected), NOISE.sub("", done.stdout)):
        return f"does not print what is shown:\n{command}\n{done.stdout}"
    return None


def failures_of(page, cache):
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("data", "scripts"):
            pathlib.Path(folder, name).symlink_to(ROOT / name)
        pathlib.Path(folder, "bin").mkdir()
        pathlib.Path(folder, "bin", "convgrad").symlink_to(CONVGRAD)
        for kind, block in BLOCK.findall(text_of(page)):
            for command in commands(kind, block):
                failures.append(failure_of(folder, cache, *command))
    return [f"{name_of(page)} {failure}" for failure in failures if failure]


def anchors_of(page):
    """As GitHub makes them: lower case, blanks as dashes, punctuation left out."""
    headings = HEADING.findall(FENCE.sub("", text_of(page)))
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
            for heading in headings}


def broken_links(page):
    text = FENCE.sub("", text_of(page))
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{name_of(page)}: {link} leads nowhere"
        elif anchor and anchor not in anchors_of(target):
            yield f"{name_of(page)}: {link} has no such heading"


class Documentation(unittest.TestCase):
    def test_every_command_does_what_is_shown(self):
        self.assertTrue(BLOCK.search(text_of(PAGES[0])), "the README shows no commands")
        with tempfile.TemporaryDirectory() as cache:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                failures = pool.map(lambda page: failures_of(page, cache), PAGES)
        for failure in sum(failures, []):
            with self.subTest():
                self.fail(failure)

    def test_no_block_looks_like_commands_but_is_not_run(self):
        for page in PAGES:
            for language in FENCE.findall(text_of(page)):
                self.assertIn(language, NOT_RUN | {"sh", "console"}, name_of(page))

    def test_links_lead_somewhere(self):
        self.assertEqual([link for page in PAGES + OTHER_PAGES for link in broken_links(page)], [])

    def test_readme_is_short(self):
        self.assertLessEqual(len(text_of(PAGES[0]).splitlines()), MOST_README_LINES)

    def test_design_names_no_times_but_among_experiments(self):
        for page in (ROOT / "docs" / "design").glob("*.md"):
            if page.name != "experiments.md":
                self.assertIsNone(TIME.search(text_of(page)), name_of(page))


if __name__ == "__main__":
    CONVGRAD = pathlib.Path(sys.argv.pop(1)).resolve()
    tool_environment.clear()
    unittest.main()
