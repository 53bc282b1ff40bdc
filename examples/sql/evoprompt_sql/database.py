"""The databases, written from a seed."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

FIRST_NAMES = ("Mia", "Tom", "Anna", "Ben", "Lena", "Omar", "Ida", "Paul", "Nora", "Max")
LAST_NAMES = ("Berg", "Costa", "Diaz", "Fuchs", "Haas", "Ito", "Kaya", "Lund")
CITIES = ("Oslo", "Rome", "Lima", "Kyoto", "Quito", "Bern", "Cairo", "Riga")
PRODUCTS = (
    *("tea", "coffee", "bread", "honey", "rice", "salt", "soap", "candle", "basket", "lamp"),
    *("chair", "table", "carpet", "mirror", "clock", "kettle", "bowl", "knife", "spoon", "plate"),
    *("paper", "pencil", "ink", "string", "glue", "ribbon", "button", "thread", "scarf", "glove"),
    *("hat", "coat", "belt", "boot", "drum", "flute", "kite", "rope", "tent", "saddle"),
)
CATEGORIES = ("food", "home", "office", "clothes", "leisure")
YEARS = range(2018, 2024)
CUSTOMER_COUNT = 60
ORDER_COUNT = 10_000

SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, city TEXT NOT NULL);
CREATE TABLE products (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, category TEXT NOT NULL, price INTEGER NOT NULL
);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id),
  product_id INTEGER NOT NULL REFERENCES products (id),
  year INTEGER NOT NULL,
  quantity INTEGER NOT NULL
);
CREATE INDEX by_customer ON orders (customer_id, product_id);
CREATE INDEX by_product ON orders (product_id, year);
CREATE INDEX by_year ON orders (year);
"""


def write(path: Path, seed: int) -> None:
    """Writes the shop of ``seed`` to a new SQLite file: 60 customers, 40 products, 10,000 orders.

    Names are the same in all shops; their numbers, and what was ordered, are not.
    """
    rng = random.Random(seed)
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    customer_ids = rng.sample(range(10, 100), CUSTOMER_COUNT)
    product_ids = rng.sample(range(10, 100), len(PRODUCTS))
    customers = [
        (number, name, rng.choice(CITIES))
        for number, name in zip(customer_ids, rng.sample(names, CUSTOMER_COUNT), strict=True)
    ]
    products = [
        (number, name, rng.choice(CATEGORIES), rng.randint(2, 99))
        for number, name in zip(product_ids, PRODUCTS, strict=True)
    ]
    orders = [
        (
            number,
            rng.choice(customer_ids),
            rng.choice(product_ids),
            rng.choice(YEARS),
            rng.randint(1, 9),
        )
        for number in range(1, ORDER_COUNT + 1)
    ]
    connection = sqlite3.connect(path)
    try:
        connection.executescript(SCHEMA)
        with connection:
            connection.executemany("INSERT INTO customers VALUES (?, ?, ?)", customers)
            connection.executemany("INSERT INTO products VALUES (?, ?, ?, ?)", products)
            connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", orders)
    finally:
        connection.close()
