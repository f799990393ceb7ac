"""Excel files that are made to cost much: each has a few parts that announce or repeat too much."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
LETTERS = ("E", "Z", "AZ", "ZZ", "XFD", "XFE", "ZZZ", "ZZZZZZ")
NUMBERS = ("0", "1", "-1", "1e999", "nan", "9" * 400, "", "0x10", "1_000", "45000.5", " 7", "٣")
KINDS = ("n", "s", "b", "e", "d", "str", "inlineStr", "?")


def craft(_: bytes, rng: random.Random) -> bytes:
    """A workbook with one to three attacks on a table that is good."""
    book = Book(rng)
    for attack in rng.sample(ATTACKS, rng.choice((1, 1, 2, 3))):
        attack(book, rng)
    return book.packed()


def times(rng: random.Random) -> int:
    """How often something is repeated: mostly a little, at times a million."""
    return int(10 ** rng.uniform(0, 6))


def cell(place: str, value: object, kind: str = "n", more: str = "") -> str:
    """A cell with a value."""
    if kind == "inlineStr":
        return f'<c r="{place}" t="{kind}"{more}><is><t>{value}</t></is></c>'
    return f'<c r="{place}" t="{kind}"{more}><v>{value}</v></c>'


class Book:
    """A small workbook in pieces that attacks change."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = ["x", "text", "t_a", "t_b"]
        self.rows = [
            cell(f"A{i}", rng.random())
            + cell(f"B{i}", i % 3, "s")
            + (cell(f"C{i}", i % 2) if i % 3 else "")
            + cell(f"D{i}", i // 2 % 2)
            for i in range(2, 42)
        ]
        self.numbers: list[str] = [str(i) for i in range(2, 42)]
        self.before = self.inside = self.after = self.doctype = ""
        self.strings = "<si><t>a</t></si><si><t>b</t></si><si><r><t>c</t></r></si>"
        self.styles = '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
        self.book = '<sheets><sheet name="s" sheetId="1" r:id="rId1"/></sheets>'
        self.target = "worksheets/sheet1.xml"
        self.encoding, self.packing = "utf-8", zipfile.ZIP_DEFLATED
        self.others: dict[str, bytes] = {}

    def packed(self) -> bytes:
        """The workbook as bytes."""
        head = "".join(
            cell(f"{place(j)}1", name, "inlineStr") for j, name in enumerate(self.names) if name
        )
        rows = "".join(
            f'<row r="{number}">{row}</row>'
            for number, row in zip(self.numbers, self.rows, strict=True)
        )
        kinds = {"workbook": "sheet.main", "worksheets/sheet1": "worksheet"}
        kinds |= {"sharedStrings": "sharedStrings", "styles": "styles"}
        content = "".join(
            f'<Override PartName="/xl/{name}.xml" ContentType="{TYPES}.{kind}+xml"/>'
            for name, kind in kinds.items()
        )
        links = "".join(
            f'<Relationship Id="rId{j}" Type="{OFFICE}/{kind}" Target="{target}"/>'
            for j, (kind, target) in enumerate(
                (
                    ("worksheet", self.target),
                    ("sharedStrings", "sharedStrings.xml"),
                    ("styles", "styles.xml"),
                ),
                1,
            )
        )
        package = "http://schemas.openxmlformats.org/package/2006"
        parts = {
            "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
            f'<Default Extension="xml" ContentType="application/xml"/>{content}</Types>',
            "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r" '
            f'Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">{self.book}'
            "</workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
            f"{links}</Relationships>",
            "xl/sharedStrings.xml": f'{self.doctype}<sst xmlns="{MAIN}">{self.strings}</sst>',
            "xl/styles.xml": f'<styleSheet xmlns="{MAIN}">{self.styles}</styleSheet>',
            "xl/worksheets/sheet1.xml": f'{self.doctype}<worksheet xmlns="{MAIN}">{self.before}'
            f'<sheetData><row r="1">{head}</row>{rows}{self.inside}</sheetData>{self.after}'
            "</worksheet>",
        }
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", self.packing) as archive:
            for name, text in parts.items():
                declared = f'<?xml version="1.0" encoding="{self.encoding}"?>'
                archive.writestr(name, (declared + text).encode(self.encoding, "replace"))
            for name, data in self.others.items():
                archive.writestr(name, data)
        return out.getvalue()

    def add(self, row: str, number: int | None = None) -> None:
        """One more row."""
        self.numbers.append(str(len(self.rows) + 2 if number is None else number))
        self.rows.append(row)


def place(column: int) -> str:
    """Letters of a column, from 0."""
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def entities(book: Book, rng: random.Random) -> None:
    """Texts that are defined once and named often, or in terms of each other, or elsewhere."""
    depth, length = rng.randrange(1, 10), times(rng)
    named = ['<!ENTITY a0 "' + "a" * length + '">']
    named += [f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, depth)]
    named.append('<!ENTITY x SYSTEM "file:///etc/hostname">')
    book.doctype = f"<!DOCTYPE w [{''.join(named)}]>"
    book.strings += (
        f"<si><t>{rng.choice((f'&a{depth - 1};', '&x;')) * rng.randrange(1, 99)}</t></si>"
    )
    book.rows[0] = cell("B2", 3, "s") + cell("C2", 1)


def repeated_text(book: Book, rng: random.Random) -> None:
    """Long texts, or many, that many cells name."""
    long, many = times(rng), max(1, times(rng) // 100)
    book.strings += "".join(f"<si><t>{i}{'lorem ' * (long // many)}</t></si>" for i in range(many))
    for _ in range(min(times(rng), 50_000)):
        i = len(book.rows) + 2
        book.add(cell(f"B{i}", 3 + rng.randrange(many), "s") + cell(f"C{i}", i % 2))


def empty_texts(book: Book, rng: random.Random) -> None:
    """Texts without letters, or of nested tags."""
    tag = rng.choice(("si", "t", "r", "rPh", "x"))
    book.strings += rng.choice((f"<{tag}/>", "<si><t/></si>", "\n", "&#65;")) * times(rng)


def nested(book: Book, rng: random.Random) -> None:
    """Tags in tags in tags."""
    n, tag = times(rng) // 4, rng.choice(("r", "is", "c", "x:c", "row"))
    deep = f"<{tag}>" * n + f"</{tag}>" * n
    if rng.random() < 0.5:
        book.strings += f"<si>{deep}</si>"
    else:
        book.inside += f'<row r="90"><c r="A90" t="inlineStr"><is>{deep}</is></c></row>'


def far_cells(book: Book, rng: random.Random) -> None:
    """Cells far to the right, with a header or without one, in few rows or in many."""
    letters = rng.choice(LETTERS)
    if rng.random() < 0.5:
        book.names += [""] * rng.choice((10, 300, 16_379)) + ["far"]
        letters = place(len(book.names) - 1)
    for _ in range(max(1, times(rng) // 50)):
        i = len(book.rows) + 2
        last = rng.choice((f'<c r="{letters}{i}"/>', cell(f"{letters}{i}", 1)))
        book.add(cell(f"A{i}", 1) + cell(f"C{i}", i % 2) + last)


def named_columns(book: Book, rng: random.Random) -> None:
    """Many columns with names, and few cells below."""
    kind = rng.choice(("x", "t_", "=cmd", "\x85\u202e"))
    book.names += [f"{kind}{j}" for j in range(rng.choice((100, 2000, 16_000)))]
    for _ in range(times(rng) // 1000):
        i = len(book.rows) + 2
        book.add(cell(f"{place(len(book.names) - 1)}{i}", 1))


def far_rows(book: Book, rng: random.Random) -> None:
    """Rows that are said to be the last, or before the first, or out of order."""
    number = rng.choice((2**20, 2**20 + 1, 10**20, -5, 0, 3, 2**31, 2**63))
    book.add(cell(f"A{number}", 1), number)
    if rng.random() < 0.3:
        book.inside += f'<row r="{rng.choice(("x", "", "1e3", "٣"))}"><c><v>1</v></c></row>'


def blank_cells(book: Book, rng: random.Random) -> None:
    """Cells and rows with nothing in them."""
    row = rng.choice(("<c/>", '<c s="1"/>', "<row/>", "<c><v/></c>", "<c><v>1</v></c>", "\n"))
    book.inside += f'<row r="95">{row * times(rng)}</row>'


def many_rows(book: Book, rng: random.Random) -> None:
    """Rows that say no more than those of a table, but without the places of their cells."""
    row = "".join(f"<c><v>{rng.randrange(2)}</v></c>" for _ in range(rng.choice((1, 4))))
    book.inside += f"<row>{row}</row>" * times(rng)


def comments(book: Book, rng: random.Random) -> None:
    """Comments and instructions to programs, long ones or many."""
    n = times(rng)
    one = rng.choice((f"<!--{'a' * n}-->", "<!---->" * n, f"<?x {'a' * n}?>", "<?x?>" * n))
    book.inside += one * rng.choice((1, 1, 20))


def attributes(book: Book, rng: random.Random) -> None:
    """Many attributes, or long ones."""
    n = times(rng) // 2
    many = " ".join(f'a{i}="x"' for i in range(n))
    book.inside += rng.choice((f"<row {many}/>", f'<row r="{"9" * n}"/>', f'<c r="{"A" * n}"/>'))


def odd_values(book: Book, rng: random.Random) -> None:
    """Numbers, dates, truths and texts that are none."""
    for _ in range(rng.randrange(1, 40)):
        i = len(book.rows) + 2
        style = f' s="{rng.choice((0, 1, 2, -1, 10**9, ""))}"'
        odd = cell(f"A{i}", rng.choice(NUMBERS), rng.choice(KINDS), style)
        book.add(odd + cell(f"C{i}", rng.choice((0, 1, "yes", "?")), rng.choice(("n", "str"))))


def many_styles(book: Book, rng: random.Random) -> None:
    """Styles of cells, and ways to write numbers."""
    n = times(rng)
    formats = "".join(
        f'<numFmt numFmtId="{200 + i}" formatCode="{rng.choice(("[", "h[", "d", "0;"))}"/>'
        for i in range(min(n, 10_000))
    )
    long = f'<numFmt numFmtId="199" formatCode="{"[" * n}"/>'
    xfs = '<xf numFmtId="199"/>' + rng.choice(("<xf/>", '<xf numFmtId="14"/>')) * n
    book.styles = f"<numFmts>{formats}{long}</numFmts><cellXfs>{xfs}</cellXfs>"


def merged(book: Book, rng: random.Random) -> None:
    """Cells that are merged, rules and columns of the whole sheet."""
    area = rng.choice(("A1:XFD1048576", "E1:E1048576", "A50:D51", "A:XFD", "x"))
    heading = "&amp;L&amp;C&amp;R" * times(rng)
    one = rng.choice(
        (
            f'<mergeCells><mergeCell ref="{area}"/></mergeCells>',
            f'<conditionalFormatting sqref="{(area + " ") * (times(rng) // 10 + 1)}"/>',
            f"<headerFooter><oddHeader>{heading}\n</oddHeader></headerFooter>",
        )
    )
    book.after += one * rng.choice((1, 1, 30))
    book.before += '<cols><col min="1" max="16384" width="9"/></cols>' * rng.choice((0, 1, 1000))
    book.before += f'<dimension ref="{area}"/>'


def formulas(book: Book, rng: random.Random) -> None:
    """Formulas that many cells share."""
    long = "A1+" * (times(rng) // 3)
    book.add(f'<c r="A43"><f t="shared" ref="A43:A999999" si="0">{long}1</f><v>1</v></c>', 43)
    for i in range(44, 44 + min(times(rng), 20_000)):
        book.add(f'<c r="A{i}"><f t="shared" si="0"/><v>1</v></c>', i)


def parts(book: Book, rng: random.Random) -> None:
    """Parts that are not there, are elsewhere, are many, or are packed in other ways."""
    which = rng.randrange(6)
    if which == 0:
        book.target = rng.choice(("../../../../etc/passwd", "/xl/workbook.xml", "", "x" * 10**5))
    elif which == 1:
        book.others = {f"xl/{i}.xml": b"<a/>" for i in range(times(rng) // 50)}
    elif which == 2:
        book.others["xl/comments1.xml"] = b"<x>" + b"<comment/>" * times(rng)
    elif which == 3:
        book.packing = rng.choice((zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2, zipfile.ZIP_STORED))
    elif which == 4:
        book.encoding = rng.choice(("utf-16", "iso-8859-1", "ascii", "utf-16-be", "cp037"))
    else:
        book.book = book.book * rng.choice((0, 2, 1000)) + "<definedNames/>" * times(rng)


ATTACKS: tuple[Callable[[Book, random.Random], None], ...] = (
    entities,
    repeated_text,
    empty_texts,
    nested,
    far_cells,
    named_columns,
    far_rows,
    blank_cells,
    many_rows,
    comments,
    attributes,
    odd_values,
    many_styles,
    merged,
    formulas,
    parts,
)
