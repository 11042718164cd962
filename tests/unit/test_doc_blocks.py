#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_doc_blocks.py ROOT - the blocks of pages: what is found in them, which pages are refused, which outputs are the same"""
import glob
import os
import sys
import unittest

ROOT = sys.argv.pop(1)
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from doc_blocks import PageError, blocks, difference  # noqa: E402

PAGE = """# A page

```sh
echo one
```

```text
one
```

Words.

```js not-run: needs a machine with KVM
console.log(2);
```

```json
{"a": 1}
```

  ```python
  if True:
      print(3)
  ```
  ```text
  3
  ```
"""
VM, OTHER = "ctubvd612gxi3gqnpuga", "9yxsj43pqql93z1s7ng4"


class Blocks(unittest.TestCase):
    def refused(self, text, *words):
        with self.assertRaises(PageError) as e:
            blocks("p.md", text)
        for w in words:
            self.assertIn(w, str(e.exception))

    def test_found_in_order(self):
        found = blocks("p.md", PAGE)
        self.assertEqual([(b.lang, b.line, b.not_run) for b in found],
                         [("sh", 3, None), ("js", 13, "needs a machine with KVM"), ("python", 21, None)])
        self.assertEqual(found[0].where, "p.md:3")
        self.assertEqual([b.shown and b.shown.text for b in found], ["one\n", None, "3\n"])
        self.assertEqual(found[2].text, "if True:\n    print(3)\n")

    def test_a_longer_fence_holds_a_shorter_one(self):
        self.assertEqual(blocks("p.md", "````sh\ncat <<'E'\n```\nE\n````\n")[0].text, "cat <<'E'\n```\nE\n")

    def test_refused(self):
        self.refused("```sh\necho\n", "p.md:1", "no end")
        self.refused("```text\nx\n```\n", "p.md:1", "output of nothing")
        self.refused("```sh\necho x\n```\nWords.\n```text\nx\n```\n", "p.md:5", "output of nothing")
        self.refused("```sh\necho x\n```\n```text\n...\n ...\n```\n", "p.md:4", "only '...'")
        self.refused("```sh\necho x\n```\n```text\nx\n```\n```text\nx\n```\n", "p.md:7")
        self.refused("```sh whatever\nls\n```\n", "whatever")
        self.refused("```sh not-run:\nls\n```\n", "not-run")
        self.refused("```ruby\nputs 1\n```\n", "ruby")
        self.refused("```\nx\n```\n", "neither")
        self.refused("```json\n{a: 1}\n```\n", "not JSON")

    def test_pages_of_this_tree(self):
        pages = sorted(glob.glob(os.path.join(ROOT, "docs/guides/*.md"))) + [os.path.join(ROOT, "docs/QUICKSTART.md")]
        self.assertGreater(len(pages), 3)
        for page in pages:
            with open(page) as f:
                blocks(os.path.relpath(page, ROOT), f.read())


class Match(unittest.TestCase):
    def same(self, shown, came):
        self.assertIsNone(difference(shown, came))

    def test_the_same(self):
        self.same("a\nb\n", "a\nb  \n\n")
        self.same("", "\n")
        self.same("up ... days", "up 3 days")
        self.same("... x ...", "1 x 2")
        self.same("a (b) [c]* ...", "a (b) [c]* d")  # not an expression

    def test_what_differs_from_run_to_run(self):
        self.same(f"{VM} web", f"{OTHER} web")
        self.same(f"snapshot sc-{VM}, pt-{VM}", f"snapshot sc-{OTHER}, pt-{OTHER}")
        self.same("at 2026-01-31T12:00:00.000Z", "at 2027-02-01 01:02:03")
        self.same("0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7")
        self.same("a" * 40, "0123456789" * 4)

    def test_not_the_same(self):
        self.assertEqual(difference("a\nb\n", "a\nc\n"), (1, "b", "c"))
        self.assertEqual(difference("a\nb\n", "a\n"), (1, "b", None))
        self.assertEqual(difference("a\n", "a\nb\n"), (1, None, "b"))
        self.assertEqual(difference("", "x"), (0, None, "x"))
        self.assertIsNotNone(difference("a ... b", "a \n b"))  # within a line
        self.assertIsNotNone(difference("a", "A"))
        self.assertIsNotNone(difference(f"sc-{VM}", f"pt-{VM}"))
        self.assertIsNotNone(difference("a b", "a  b"))


if __name__ == "__main__":
    unittest.main()
