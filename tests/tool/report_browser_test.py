"""The page of a report in a browser: Chromium without a window, driven by Selenium. Without them it
says so and ends with 77.

usage: report_browser_test.py CONVGRAD [--screenshots FOLDER]
"""
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time
import unittest

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None
    # Debian's package is for Debian's interpreter.
    if os.path.realpath(sys.executable) != os.path.realpath("/usr/bin/python3") and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

import report_pages
from report_pages import HOSTILE, ROOT, STATUSES, Folder, bench_entries, convgrad, entry, peaks

SCREENSHOTS = None


@unittest.skipIf(webdriver is None or not shutil.which("chromium"), "needs chromium, chromium-driver, python3-selenium")
class Browser(Folder):
    @classmethod
    def setUpClass(cls):
        cls.downloads = tempfile.mkdtemp()
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1500,1050",
                     "--hide-scrollbars", "--force-color-profile=srgb", f"--user-data-dir={cls.downloads}/profile"):
            options.add_argument(word)
        options.add_experimental_option("prefs", {"download.default_directory": cls.downloads})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        cls.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()
        shutil.rmtree(cls.downloads, ignore_errors=True)

    def tearDown(self):
        self.assertEqual([line for line in self.driver.get_log("browser") if "hostile-script-of-the-test" not in line["message"]], [])
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def open(self, page):
        self.driver.get(page.as_uri())
        self.run_script("localStorage.clear()")
        self.driver.get(page.as_uri())

    def run_script(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def names(self):
        return self.run_script("return Array.from(document.querySelectorAll('#cases .row:not(.head) .name'), (cell) => cell.textContent)")

    def show(self, tab):
        self.find(f"#tab-{tab}").click()

    def picture(self, name):
        if not SCREENSHOTS:
            return
        pathlib.Path(SCREENSHOTS).mkdir(parents=True, exist_ok=True)
        height = self.run_script("return document.documentElement.scrollHeight")
        self.driver.set_window_size(1500, min(3000, max(1050, height + 100)))
        self.driver.save_screenshot(f"{SCREENSHOTS}/{name}.png")
        self.driver.set_window_size(1500, 1050)

    def batch(self):
        entries = [entry(i, f"case {i}", STATUSES[i % len(STATUSES)]) for i in range(90)]
        return self.report("batch.json", entries)

    def test_every_view_of_every_kind_draws(self):
        bench = self.report("bench.json", bench_entries(), "bench", peaks=[peaks(1), peaks(2)])
        other = self.report("other.json", bench_entries(0.9, "scalar"), "bench", peaks=[peaks(1), peaks(2)])
        pages = {"batch": (self.batch(),), "check": (self.report("check.json", [entry(0, "one", "FAILED")], "check"),),
                 "empty": (self.report("empty.json", []),), "bench": (bench,), "two": (bench, other), "mixed": (bench, self.batch())}
        for name, reports in pages.items():
            with self.subTest(name):
                self.open(self.page(*reports))
                tabs = [tab.get_attribute("id")[4:] for tab in self.all("#tabs button")]
                for tab in tabs:
                    self.show(tab)
                    view = self.find(f"#view-{tab}")
                    self.assertTrue(view.text.strip(), tab)
                    self.assertNotIn("can't be drawn", view.text)
                    self.assertFalse(re.search(r"NaN|undefined|Infinity", self.run_script(
                        "return Array.from(document.querySelectorAll('svg *')).flatMap((n) => Array.from(n.attributes, (a) => a.value)).join(' ')")), tab)
                    self.picture(f"{name}-{tab}")
                self.assertEqual(self.run_script("return performance.getEntriesByType('resource').length"), 0)
                if name == "bench":
                    self.assertEqual(tabs, ["cases", "roofline", "times", "ratios", "scaling", "reports"])
                if name == "two":
                    self.assertIn("compared", tabs)
                    self.show("scaling")
                    self.assertTrue(self.all("figure[data-name='scaling-isa'] .point"))

    def test_the_roofline_has_a_point_for_each_case(self):
        self.open(self.page(self.report("bench.json", bench_entries(), "bench", peaks=[peaks(1), peaks(2)])))
        self.show("roofline")
        self.assertEqual(len(self.all("figure[data-name='roofline'] .point[data-row]")), 24)
        self.assertEqual({label.text.split()[0] for label in self.all(".roof-label")}, {"float32", "float64", "L1", "L2", "L3", "memory"})
        point = self.find("figure[data-name='roofline'] .point[data-row='4']")
        webdriver.ActionChains(self.driver).move_to_element(point).perform()
        self.assertIn("layer", self.find("#tip").text)
        self.run_script("arguments[0].dispatchEvent(new Event('click'))", point)
        self.assertTrue(self.find("#view-cases").is_displayed())
        self.assertEqual(self.find(".row.current").get_attribute("data-row"), "4")

    def test_sorting(self):
        self.open(self.page(self.batch()))
        self.assertIn("ERROR FAILED SUSPECT TIMEOUT".split()[1], self.find("#cases .row:not(.head)").text)
        self.find("[data-key='ms'] button").click()
        times = self.run_script("return table.rows.map((row) => CASES.ms[row] ?? -1)")
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertEqual(self.find("[data-key='ms']").get_attribute("aria-sort"), "descending")
        self.find("[data-key='name'] button").click()
        names = self.run_script("return table.rows.map((row) => CASES.name[row])")
        self.assertEqual(names, sorted(names))
        self.assertEqual(self.names()[0], names[0])
        self.find("[data-key='name'] button").click()
        self.assertEqual(self.run_script("return table.rows.map((row) => CASES.name[row])"), sorted(names, reverse=True))

    def test_filtering(self):
        self.open(self.page(self.batch()))
        self.find("button[data-status='FAILED']").click()
        self.assertEqual({badge.get_attribute("textContent") for badge in self.all("#cases .row:not(.head) span.status")}, {"✗FAILED"})
        self.assertIn("10 of 90", self.find(".said").text)
        for key, value, count in (("op", "conv2d", None), ("dtype", "float64", None), ("tag", "layer3", None), ("mistake", "filter-flipped", 20), ("time", "2", None)):
            self.find("#clear").click()
            self.assertIn("90 of 90", self.find(".said").text)
            self.run_script("table.choose(arguments[0], arguments[1])", key, value)
            shown = self.run_script("return table.rows.length")
            self.assertTrue(0 < shown < 90, key)
            if count:
                self.assertEqual(shown, count)
        self.find("#clear").click()
        self.find("#search").send_keys("case 77")
        self.assertEqual(self.names(), ["case 77"])

    def test_the_keyboard(self):
        self.open(self.page(self.batch()))
        body = self.find("body")
        body.send_keys("/")
        self.assertEqual(self.driver.switch_to.active_element.get_attribute("id"), "search")
        self.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        grid = self.find("#cases")
        grid.send_keys(Keys.HOME)
        grid.send_keys(Keys.ARROW_DOWN, Keys.ARROW_DOWN)
        self.assertEqual(self.run_script("return table.current"), 2)
        grid.send_keys(Keys.END)
        self.assertEqual(self.run_script("return table.current"), 89)
        self.assertTrue(self.find(".row.current").is_displayed())
        grid.send_keys(Keys.ENTER)
        self.assertEqual(self.driver.switch_to.active_element.get_attribute("id"), "detail")
        self.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
        self.assertEqual(self.driver.switch_to.active_element.get_attribute("id"), "cases")
        self.find("#tab-cases").send_keys(Keys.ARROW_RIGHT)
        self.assertTrue(self.find("#view-reports").is_displayed())

    def test_light_and_dark(self):
        page = self.page(self.report("check.json", [entry(0, "one", "FAILED")], "check"))
        self.open(page)
        ground = lambda: self.run_script("return getComputedStyle(document.documentElement).backgroundColor")
        light = ground()
        self.find("#theme").click()
        dark = ground()
        self.assertNotEqual(light, dark)
        self.picture("dark")
        self.find("#theme").click()
        self.assertEqual(ground(), light)
        self.run_script("localStorage.clear()")
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
        self.driver.get(page.as_uri())
        self.assertEqual(ground(), dark)

    def test_a_hostile_name_stays_text(self):
        hostile = entry(0, HOSTILE, "FAILED", repro=HOSTILE, tags=[HOSTILE])
        hostile["check"]["reason"] = hostile["check"]["diagnosis"]["sentence"] = HOSTILE
        hostile["check"]["profile"]["grids"][0]["down"] = HOSTILE
        self.open(self.page(self.report(f"r.json", [hostile, entry(1, "__proto__", "FAILED"), entry(2, "constructor")])))
        self.assertIsNone(self.run_script("return window.hacked ?? null"))
        self.assertEqual(self.all("main img, main script"), [])
        self.assertIn("</script><script>", self.find("#detail h2").text)
        self.assertIn("⟨U+202E⟩", self.find("#detail h2").text)
        self.assertNotIn("\u202e", self.find("#detail").text)
        # And were it markup, it would not run.
        self.run_script("const s = document.createElement('script'); s.textContent = 'window.hacked = 2 /* hostile-script-of-the-test */'; document.body.append(s)")
        self.assertIsNone(self.run_script("return window.hacked ?? null"))
        self.driver.get_log("browser")

    def test_hostile_values_leave_the_page_whole(self):
        broken = entry(0, "broken", "FAILED")
        broken["check"]["profile"] = {"grids": 7, "axes": "x"}
        broken["check"]["counts"] = None
        broken["inputs"] = [1, None]
        broken["check"]["worst"] = 5
        self.open(self.page(self.report("r.json", [broken, entry(1, "right")])))
        self.assertEqual(len(self.names()), 2)
        self.assertIn("broken", self.find("#detail h2").text)

    def test_the_detail_of_a_failure(self):
        self.open(self.page(self.report("check.json", [entry(0, "one", "FAILED")], "check")))
        text = self.find("#detail").text
        for part in ("12 of 6272", "filter-flipped", "the filter is flipped", "convgrad check conv2d --name case-0", "border"):
            self.assertIn(part, text)
        self.assertTrue(self.all(".mistake svg"))
        self.assertEqual(len(self.all("figure[data-name='errors-grid-0'] .nothing")), 1)
        self.assertTrue(self.all("figure[data-name='errors-grid-0'] .beyond"))
        self.assertTrue(self.all("figure[data-name='ulps-histogram'] .model"))
        self.assertEqual(len(self.all("figure[data-name='worst-elements'] tbody tr")), 10)
        self.find(".copy").click()
        time.sleep(0.2)
        self.assertEqual(self.find(".copy").text, "Copied")

    def test_every_mistake_has_a_picture(self):
        section = (ROOT / "docs/reference/values.md").read_text().split("## Mistakes that `check` names")[1].split("\n## ")[0]
        names = re.findall(r"`([a-z0-9-]+)`", "".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)))
        self.assertGreater(len(names), 40)
        self.open(self.page(self.report("check.json", [entry(0, "one", "FAILED")], "check")))
        drawn = self.run_script("return arguments[0].filter((name) => pictureOfMistake(name)?.querySelectorAll('*').length > 2)", names)
        self.assertEqual(sorted(set(names) - set(drawn)), [])
        self.assertIsNone(self.run_script("return pictureOfMistake('constructor')"))
        paddings = [name for name in names if name.endswith("-padding")]
        rows = self.run_script("return arguments[0].map((name) => pictureOfMistake(name).textContent)", paddings)
        self.assertEqual(len(set(rows)), 4, dict(zip(paddings, rows)))
        if SCREENSHOTS:
            self.run_script("document.querySelector('main').replaceChildren(...arguments[0].map((n) => element('div', {class: 'mistake'}, pictureOfMistake(n), n)))", names)
            self.picture("mistakes")

    def test_numbers_can_be_had(self):
        formula = entry(0, "=cmd|' /C calc'!A0", "FAILED")
        self.open(self.page(self.report("r.json", [formula, entry(1, "right")])))
        self.find(".cases .tools button").click()
        path = pathlib.Path(self.downloads, "cases.csv")
        for _ in range(50):
            if path.exists():
                break
            time.sleep(0.1)
        lines = path.read_text().splitlines()
        self.assertEqual(lines[0].split(",")[:3], ["report", "name", "status"])
        self.assertIn("'=cmd", lines[1])
        path.unlink()
        toggle = self.find("figure[data-name='errors-grid-0'] button")
        toggle.click()
        self.assertEqual(toggle.get_attribute("aria-expanded"), "true")
        self.assertEqual(len(self.all("figure[data-name='errors-grid-0'] tbody tr")), 14 * 14)

    def test_paper(self):
        self.open(self.page(self.batch()))
        self.run_script("dispatchEvent(new Event('beforeprint'))")
        self.assertEqual(len(self.all("#cases .row:not(.head)")), 90)
        self.assertGreater(len(self.driver.execute_cdp_cmd("Page.printToPDF", {})["data"]), 10_000)

    def test_ten_thousand_cases_open_in_a_second(self):
        entries = [entry(i, f"resnet50_layer{i % 53}_{i}_filter_float32_nhwc", "FAILED" if i % 100 == 0 else "PASSED") for i in range(10_000)]
        page = self.page(self.report("big.json", entries))
        times = []
        for _ in range(5):
            self.driver.get(page.as_uri())
            times.append(self.run_script("const t = performance.timing; return t.loadEventEnd - t.navigationStart"))
        print(f"10,000 cases: {page.stat().st_size} bytes, opened in {min(times)} ms (of {times})")
        self.assertLess(min(times), 1000)
        self.assertLess(len(self.all("#cases .row")), 100)
        self.run_script("document.getElementById('cases').scrollTop = 150000")
        time.sleep(0.2)
        self.assertTrue(self.run_script("return Array.from(document.querySelectorAll('#cases .row:not(.head)')).some((row) => Number(row.ariaRowIndex) > 4000)"))
        self.picture("ten-thousand")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    report_pages.tool = os.path.abspath(arguments.pop(0))
    if "--screenshots" in arguments:
        at = arguments.index("--screenshots")
        SCREENSHOTS = os.path.abspath(arguments[at + 1])
        del arguments[at:at + 2]
    result = unittest.main(argv=[sys.argv[0], *arguments], exit=False).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.skipped else 0)
