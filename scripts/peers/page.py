"""Writes what a script has measured into a page of the documentation."""


def write_between(path, mark, text):
    """Puts the text between the two lines of the page that bear the mark."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->\n"
    content = path.read_text(encoding="utf-8")
    if begin not in content or end not in content:
        raise SystemExit(f"{path} has no lines {begin.strip()} and {end.strip()}")
    head, _, rest = content.partition(begin)
    path.write_text(head + begin + text + end + rest.partition(end)[2], encoding="utf-8")
