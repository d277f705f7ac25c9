"""The lines of Python that the guide shows."""
import doctest
import pathlib
import re

PAGES = sorted((pathlib.Path(__file__).parents[2] / "docs" / "guide").glob("*.md"))


def test_the_guide_shows_what_happens():
    shown = 0
    for page in PAGES:
        text = "\n".join(re.findall(r"^```python\n(.*?)^```$", page.read_text(),
                                    re.MULTILINE | re.DOTALL))
        test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
        said = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        runner.run(test, out=said.append)
        assert not runner.failures, "".join(said)
        shown += runner.tries
    assert shown > 10
