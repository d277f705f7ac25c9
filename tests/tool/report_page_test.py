"""The page of a report, as far as it can be tested without a browser: the data in it, and refusals.

usage: report_page_test.py CONVGRAD
"""
import json
import os
import re
import sys
import unittest

import report_pages
from report_pages import HOSTILE, Folder, context, convgrad, entry

MOST_BYTES = 2 << 20


class Page(Folder):
    def data(self, page):
        text = page.read_text()
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL).group(1))

    def refusal(self, *words, expect, code=None):
        page = self.folder / "page.html"
        page.write_text("as it was")
        done = convgrad("report", *words, "--output", page, expect=expect)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertEqual(page.read_text(), "as it was")
        return done.stderr

    def test_what_is_no_report_is_refused(self):
        for name, text in {"empty": "", "text": "hello\n", "list": "[1, 2]", "object": "{}", "google": '{"context": {}, "benchmarks": []}',
                           "cut": '{"context": {"convgrad": {"schema": "convgrad-report/1"}}, "benchm', "binary": "\x00\x01\x02",
                           "numbers": '{"context": 1, "benchmarks": 2}', "lines": '{"a": 1}\n{"b": 2}\n',
                           "deep": "[" * 100000}.items():
            with self.subTest(name):
                path = self.folder / name
                path.write_text(text)
                self.assertIn(name, self.refusal(path, expect=3))
        self.refusal(self.folder / "missing.json", expect=4)

    def test_an_unknown_schema_is_refused(self):
        path = self.report("future.json", [])
        path.write_text(path.read_text().replace("convgrad-report/1", "convgrad-report/2"))
        self.assertIn("convgrad-report/2", self.refusal(path, expect=3))

    def test_an_entry_that_is_none_is_refused(self):
        for bad in ({"status": "PASSED"}, {"name": 7, "status": "PASSED"}, {"name": "a"}, {"name": "a", "status": "PASSED", "threads": "two"}):
            with self.subTest(bad):
                self.refusal(self.report("bad.json", [bad]), expect=3)

    def test_output_is_needed_and_may_be_a_stream(self):
        report = self.report("r.json", [entry(0, "a")])
        self.assertIn("--output", convgrad("report", report, expect=2).stderr)
        self.assertTrue(convgrad("report", report, "--output", "-").stdout.startswith("<!doctype html>"))
        self.assertIn("r.json", convgrad("report", report, "--output", report, expect=2).stderr)

    def test_nothing_ends_the_data(self):
        page = self.page(self.report("r.json", [entry(0, HOSTILE, "FAILED", repro=HOSTILE)]))
        text = page.read_text()
        self.assertEqual(text.count("</script>"), 2)
        self.assertNotIn("\u2028", text)
        self.assertEqual(self.data(page)["cases"]["name"], [HOSTILE])

    def test_events_count_once_and_by_their_last_line(self):
        events = self.folder / "events.jsonl"
        lines = [entry(0, "a", "ERROR", identity="0" * 64), entry(1, "b", identity="1" * 64), entry(0, "a", identity="0" * 64)]
        events.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"name": "cut sh')
        page = self.folder / "page.html"
        done = convgrad("report", events, "--output", page)
        self.assertIn("1 line passed over", done.stderr)
        data = self.data(page)
        self.assertEqual(data["cases"]["name"], ["a", "b"])
        self.assertEqual(data["reports"][0]["counts"], {"PASSED": 2})
        self.assertIn("1 line passed over", data["reports"][0]["notes"][0])

    def test_ten_thousand_cases_fit(self):
        for failing in (0, 30, 10_000):
            entries = [entry(i, f"resnet50_layer{i % 53}_{i}_filter_float32_nhwc", "FAILED" if i < failing else "PASSED") for i in range(10_000)]
            page = self.page(self.report("big.json", entries))
            data = self.data(page)
            self.assertLessEqual(page.stat().st_size, MOST_BYTES)
            self.assertEqual(len(data["cases"]["name"]), 10_000)
            self.assertEqual(len(data["details"]) + data["without_details"], failing)
            if failing == 30:
                self.assertEqual((len(data["details"]), len(data["profiles"])), (30, 30))

    def test_a_batch_shows_itself_as_its_report_does(self):
        manifest = self.folder / "cases.jsonl"
        case = {"op": "conv2d", "padding": "SAME", "input": {"fill": "normal", "shape": [1, 5, 5, 2]},
                "filter": {"fill": "normal", "shape": [3, 3, 2, 3]}}
        cases = [case | {"name": f"c{i}", "tags": ["odd"] if i % 2 else []} for i in range(6)] + [case | {"name": "bad", "input": "missing.npy"}]
        manifest.write_text('{"schema": "convgrad-manifest/1"}\n' + "".join(json.dumps(one) + "\n" for one in cases))
        for more in ((), ("--isolate",)):
            with self.subTest(more):
                page, report = self.folder / "batch.html", self.folder / "r.json"
                convgrad("batch", manifest, "--html", page, "--report", report, "--jobs", 2, *more, expect=4)
                own, made = self.data(page), self.data(self.page(report))
                self.assertEqual(own["cases"]["name"], [one["name"] for one in cases])
                self.assertEqual([own["words"]["tags"][i] for i in own["cases"]["tags"]], ["odd" if i % 2 else "" for i in range(6)] + [""])
                for data in (own, made):
                    data["reports"][0].pop("name")
                    data["reports"][0]["context"].pop("date")
                self.assertEqual(own["cases"], made["cases"])
                self.assertEqual(own["details"], made["details"])
                self.assertEqual(own["reports"], made["reports"])
        merged = self.folder / "merged.html"
        convgrad("merge", self.folder / "r.json", "--report", self.folder / "m.json", "--html", merged, expect=4)
        self.assertEqual(self.data(merged)["cases"], made["cases"])

    def test_check_shows_where_it_fails(self):
        spoiled = self.folder / "spoiled.npy"
        convgrad("run", "conv2d", "--padding", "SAME", "--input", "fill:normal@2,9,9,4", "--filter", "fill:normal@3,3,4,8", "--output", spoiled)
        raw = bytearray(spoiled.read_bytes())
        place = 128 + 4 * (((1 * 9 + 3) * 9 + 5) * 8 + 6)  # image 1, row 3, column 5, channel 6
        raw[place:place + 4] = b"\x00\x00\x80\x44"  # 1024
        spoiled.write_bytes(raw)
        page, report = self.folder / "check.html", self.folder / "check.json"
        convgrad("check", "conv2d", "--padding", "SAME", "--input", "fill:normal@2,9,9,4", "--filter", "fill:normal@3,3,4,8",
                 "--actual", spoiled, "--html", page, "--report", report, expect=1)
        profile = self.data(page)["profiles"]["0"]
        self.assertEqual(profile, json.loads(report.read_text())["benchmarks"][0]["check"]["profile"])
        rows = next(grid for grid in profile["grids"] if (grid["down"], grid["across"]) == ("row", "column"))["worst"]
        beyond = [(r, c) for r, row in enumerate(rows) for c, value in enumerate(row) if abs(value) > 1]
        self.assertEqual(beyond, [(3, 5)])
        self.assertGreater(rows[3][5], 1000)
        for axis, place in (("image", 1), ("row", 3), ("column", 5), ("channel", 6)):
            one = next(one for one in profile["axes"] if one["axis"] == axis)
            self.assertEqual([i for i, value in enumerate(one["high"]) if value > 1], [place], axis)
        self.assertEqual(profile["worst"][0]["index"], [1, 3, 5, 6])
        self.assertEqual(sum(profile["errors"]["counts"]) + profile["errors"]["zero"], 2 * 9 * 9 * 8)
        self.assertAlmostEqual(sum(profile["model"]), 2 * 9 * 9 * 8, delta=20)

    def test_diff_shows_where_files_differ(self):
        ours, theirs, page = (self.folder / name for name in ("ours.npy", "theirs.npy", "diff.html"))
        convgrad("gen", "--fill", "normal", "--shape", "5,7", "--output", ours)
        theirs.write_bytes(ours.read_bytes()[:-4] + b"\x00\x00\x80\x44")  # the last one is 1024
        convgrad("diff", ours, theirs, "--tolerance", "abs:0.5", "--html", page, expect=1)
        data = self.data(page)
        self.assertEqual([data["words"]["status"][status] for status in data["cases"]["status"]], ["FAILED"])
        worst = data["profiles"]["0"]["worst"]
        self.assertEqual([one["index"] for one in worst], [[4, 6]])
        self.assertEqual(worst[0]["expected"], 1024)
        convgrad("diff", ours, ours, "--html", page)
        self.assertEqual(self.data(page)["profiles"], {})


if __name__ == "__main__":
    report_pages.tool = os.path.abspath(sys.argv.pop(1))
    unittest.main()
