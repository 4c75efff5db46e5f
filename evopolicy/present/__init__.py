"""How results look: one `Table`, one policy of digits, and a module for each format."""

from evopolicy.present.formats import Format as Format
from evopolicy.present.formats import render as render
from evopolicy.present.table import Cell as Cell
from evopolicy.present.table import Column as Column
from evopolicy.present.table import Table as Table
