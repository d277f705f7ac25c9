"""The operands that exported scripts make have the bits that `convgrad gen` writes, whatever fill and
type; a script loads files, and saves what `convgrad check` reads. Runs with any Python that has
NumPy; the frameworks need not be there.

usage: exported_scripts_test.py CONVGRAD
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    # Debian's interpreter has the package that scripts/install-packages installs.
    if sys.executable == "/usr/bin/python3" or not os.path.exists("/usr/bin/python3"):
        print("no NumPy: 'scripts/install-packages test' installs python3-numpy")
        sys.exit(77)
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

CONVGRAD = None
FRAMEWORK = {"pytorch": "dtype = torch.", "tensorflow": "input = tf.", "jax": "input = jnp."}


def convgrad(folder, *words):
    return subprocess.run([CONVGRAD, *words], cwd=folder, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def operands_of(script, first_line):
    """Runs a script up to its framework; its variables."""
    head = script[:script.index("\n" + first_line) + 1]
    lines = [line for line in head.splitlines(keepends=True)
             if line.split()[:2] not in (["import", "torch"], ["import", "tensorflow"], ["import", "jax"])
             and not line.startswith("import jax.numpy")]
    variables = {"__name__": "script"}
    exec(compile("".join(lines), "script", "exec"), variables)
    return variables


def bits(array, dtype):
    """As unsigned numbers; of bfloat16 in an array of float32, the half that is kept."""
    array = np.ascontiguousarray(array)
    if dtype != "bfloat16":
        return array.view(f"u{array.dtype.itemsize}")
    if array.dtype == np.float32:
        wide = array.view(np.uint32)
        assert not (wide & 0xFFFF).any(), "no bfloat16"
        return (wide >> 16).astype(np.uint16)
    return array.view(np.uint16)


class ExportedScripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check(self, fill, dtype, shape="2,9,8,3", seed=7, dialect="pytorch"):
        script = convgrad(self.folder, "export", dialect, "conv2d", "--input", f"fill:{fill}@{shape}",
                          "--filter", f"fill:normal@2,2,{shape.split(',')[3]},4#11", "--padding", "VALID",
                          "--dtype", dtype, "--seed", str(seed))
        variables = operands_of(script, FRAMEWORK[dialect])
        for role, spec, size, number in (("input", fill, shape, seed),
                                         ("filter", "normal", f"2,2,{shape.split(',')[3]},4", 11)):
            convgrad(self.folder, "gen", "--fill", spec, "--shape", size, "--dtype", dtype, "--seed",
                     str(number), "--role", role, "--output", "x.npy", "--bfloat16-as", "u2")
            expected = np.load(self.folder / "x.npy")
            self.assertEqual(variables[role].shape, expected.shape)
            np.testing.assert_array_equal(bits(variables[role], dtype), bits(expected, dtype),
                                          err_msg=f"{fill} {dtype} {role}")

    def test_every_fill_in_every_type(self):
        for fill in ("integer", "normal", "uniform:-1.5:3.25", "zeros", "ones", "impulse:5"):
            for dtype in ("float16", "bfloat16", "float32", "float64"):
                self.check(fill, dtype)

    def test_both_tails_of_many_normals(self):
        self.check("normal", "float64", shape="4,250,200,3", seed=12345678901234)

    def test_integers_are_thinned_out(self):
        self.check("integer", "float32", shape="1,1500,1000,3")

    def test_numbers_that_bfloat16_holds_as_subnormals(self):
        self.check("uniform:-1e-38:1e-38", "bfloat16")

    def test_every_framework(self):
        for dialect in FRAMEWORK:
            self.check("normal", "float32", dialect=dialect)

    def test_files_are_loaded_and_results_are_judged(self):
        for dtype in ("bfloat16", "float32"):
            convgrad(self.folder, "gen", "--fill", "normal", "--shape", "1,5,5,2", "--dtype", dtype,
                     "--output", "x.npy")
            script = convgrad(self.folder, "export", "pytorch", "conv2d", "--input", "x.npy", "--filter",
                              "fill:integer@1,1,2,1#3", "--padding", "VALID", "--dtype", dtype)
            old = os.getcwd()
            os.chdir(self.folder)
            try:
                variables = operands_of(script, FRAMEWORK["pytorch"])
                np.testing.assert_array_equal(bits(variables["input"], dtype),
                                              bits(np.load("x.npy"), dtype))
                # The result of a framework, rounded by the script's own function.
                exact = variables["input"].astype(np.float64) @ variables["filter"][0, 0].astype(np.float64)
                sys.argv = ["script", "result.npy"]
                check = script[script.rindex("save(result"):]
                with open("line.txt", "w", encoding="utf-8") as line:
                    variables |= {"result": variables["narrow"](exact, dtype),
                                  "print": lambda *words: print(*words, file=line)}
                    exec(check, variables)
                command = (self.folder / "line.txt").read_text()
                done = subprocess.run(["sh", "-c", command], text=True, stdout=subprocess.PIPE)
                self.assertEqual((done.returncode, done.stdout[:6]), (0, "PASSED"), command)
            finally:
                os.chdir(old)


if __name__ == "__main__":
    CONVGRAD = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
