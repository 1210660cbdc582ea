"""Excel files for tests."""

import io
from typing import Any

import openpyxl


def excel(**sheets: list[list[Any]]) -> bytes:
    """Return an Excel file with these rows in its sheets."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()
