"""scripts/check-layers must see each kind of violation, where it is, and nothing else.

usage: check_layers_test.py CHECK-LAYERS
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = None
PAGE = (pathlib.Path(__file__).resolve().parents[2] / "src/README.md").read_text(encoding="utf-8")

CLEAN = {
    "src/README.md": PAGE,
    "src/base/error.h": "#include <string>\nstruct Error {\n",
    "docs/design/README.md": "See `base/error.h`; users have `kernel.c` and an error.cc of their own.\n",
    "src/tensor/npy.h": '// As error.h and src/base/error.h say.\n#include "base/error.h"\n',
    "src/kernels/pack/pack-inl.h": "#include <hwy/highway.h>\n",
    "src/kernels/kernel_table.h": '#include "kernels/pack/pack.h"\n',
    "src/kernels/pack/pack.cc": '#include "kernels/dispatch.h"\n',
    "src/base/parallel.cc": "#include <tbb/parallel_for.h>\n",
    "src/conv/plan/algorithm.h": '#include "kernels/kernel_table.h"\n',
    "cli/report/report.cc": '#include <nlohmann/json.hpp>\n#include "verify/compare/compare.h"\n',
    "tests/kernels/pack_test.cc": '#include "kernels/pack/pack-inl.h"\n',
}

# File, its content, and the reason that must be given for the content's last line.
VIOLATIONS = [
    ("src/tensor/a.cc", '#include <string>\n#include "conv/compute.h"',
     "src/tensor may not include src/conv"),
    ("src/base/a.h", '#include "tensor/dtype.h"', "src/base may not include src/tensor"),
    ("src/kernels/a.h", '#include "tensor/tensor.h"', "src/kernels and src/tensor never meet"),
    ("src/kernels/pack/a.h", '#include "problem/op.h"',
     "src/kernels/pack and src/problem never meet"),
    ("src/kernels/simd/a.h", '#include "kernels/gemm/indirect_gemm.h"',
     "src/kernels/simd may not include src/kernels/gemm"),
    ("src/conv/a.cc", '#include "kernels/pack/pack-inl.h"', '"kernels/pack/pack-inl.h" is private'),
    ("src/conv/b.cc", '#include "kernels/dispatch.h"', '"kernels/dispatch.h" is private'),
    ("src/conv/move/a.h", '#include "conv/gemm/tiles.h"',
     "src/conv/move may not include src/conv/gemm"),
    ("src/conv/conv2d/filter/a.h", '#include "conv/conv2d/data/cost.h"',
     "src/conv/conv2d/filter and src/conv/conv2d/data never meet"),
    ("src/conv/depthwise/data/a.h", '#include "conv/conv2d/data/cost.h"',
     "src/conv/depthwise/data and src/conv/conv2d/data never meet"),
    ("src/verify/truth/a.cc", '#include "cli/report/report.h"',
     "src/verify/truth may not include cli/report"),
    ("src/conv/a.h", "#include <hwy/highway.h>", "<hwy/highway.h> may only be included by"),
    ("cli/case/a.cc", "#include <hwy/highway.h>", "<hwy/highway.h> may only be included by"),
    ("src/conv/c.cc", "#include <tbb/task_arena.h>", "<tbb/task_arena.h> may only be included by"),
    ("src/verify/truth/b.cc", "#include <nlohmann/json.hpp>",
     "<nlohmann/json.hpp> may only be included by"),
    ("src/conv/d.cc", '#include "nowhere/a.h"', '"nowhere/a.h" is in no room'),
    ("src/elsewhere/a.cc", '#include "base/error.h"', "src/elsewhere is no room of the table"),
    ("src/tensor/b.h", "\nclass Error : public Npy {", "Error is also a type of src/base/error.h"),
    ("src/base/string_util.cc", "", "the file's name says nothing"),
    ("CMakeLists.txt", "add_compile_options(-mar" + "ch=native)", "not chosen by compiler flags"),
    ("README.md", "Look in /ho" + "me/me/convgrad.", "a path of one machine"),
    ("src/base/b.cc", "// TO" + "DO: everything", "finish it, or leave it out"),
    ("src/base/c.cc", "// As in base/errors.h.", "there is no file base/errors.h"),
    ("docs/design/order.md", "Sums are in `order/sums.cc`.", "there is no file order/sums.cc"),
    ("src/kernels/c.cc", "auto x = _mm" + "256_setzero_ps();", "kernels are Highway's"),
]

# Trees whose violation is a room's: the files, and the line that must be printed.
ROOMS = [
    ({f"src/base/a{i}.h": "\n" for i in range(31)}, "src/base:1: 33 files, 34 lines"),
    ({"src/base/a.h": "\n" * 4000}, "src/base:1: 3 files, 4003 lines"),
    ({f"src/order/a{i}.h": f'#include "order/a{i + 1}.h"\n' for i in range(5)} |
     {"src/order/a5.h": "\n", "src/order/a5.cc": '#include "order/a5.h"\n'},
     "src/order:1: a chain of 5 includes"),
]


def check(files):
    """The violations that the script prints for a tree of these files, and its exit status."""
    with tempfile.TemporaryDirectory() as root:
        for name, content in files.items():
            file = pathlib.Path(root, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
    return done.stdout.splitlines(), done.returncode


class CheckLayers(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        self.assertEqual(check(CLEAN), ([], 0))

    def test_each_violation_is_named(self):
        for name, content, reason in VIOLATIONS:
            with self.subTest(name=name, content=content):
                lines, status = check(CLEAN | {name: content})
                self.assertEqual(len(lines), 1, lines)
                place = f"{name}:{max(1, len(content.splitlines()))}: "
                self.assertTrue(lines[0].startswith(place), lines)
                self.assertIn(reason, lines[0])
                self.assertEqual(status, 1)

    def test_rooms_too_large_or_too_deep_are_named(self):
        for files, line in ROOMS:
            with self.subTest(line=line):
                lines, status = check(CLEAN | files)
                self.assertEqual(len(lines), 1, lines)
                self.assertTrue(lines[0].startswith(line), lines)
                self.assertEqual(status, 1)

    def test_a_page_with_other_rooms_is_refused(self):
        row = "| `src/order` |"
        self.assertIn(row, PAGE)
        for page in (PAGE.replace(row, "| `src/ordered` |"),
                     "".join(line for line in PAGE.splitlines(True) if not line.startswith(row)),
                     PAGE + "| `src/attic` | | |\n"):
            lines, status = check(CLEAN | {"src/README.md": page})
            self.assertEqual(len(lines), 1, lines)
            self.assertIn("the table of rooms has", lines[0])
            self.assertEqual(status, 1)


if __name__ == "__main__":
    SCRIPT = sys.argv.pop(1)
    unittest.main()
