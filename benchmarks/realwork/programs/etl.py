"""Tables of 48 shops are extracted, cleaned, joined by region and summed up: tasks that wait for several others.

Runs in driver and workers.
"""

from __future__ import annotations

from typing import Any

_SHOPS = 48
_REGIONS = 6
_ROWS = 1_500

Row = dict[str, Any]


def extract(shop: int) -> list[Row]:
    return [
        {
            "shop": shop,
            "sku": f"sku-{(shop * 31 + row) % 211}",
            "units": (row * 7 + shop) % 13 - 1,
            "cents": row % 997,
        }
        for row in range(_ROWS)
    ]


def clean(rows: list[Row]) -> list[Row]:
    return [row | {"total": row["units"] * row["cents"]} for row in rows if row["units"] > 0]


def join(*tables: list[Row]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for table in tables:
        for row in table:
            totals[row["sku"]] = totals.get(row["sku"], 0) + row["total"]
    return totals


def report(*regions: dict[str, int]) -> list[int]:
    best = [max(region.items(), key=lambda item: (item[1], item[0])) for region in regions]
    return [sum(sum(region.values()) for region in regions), *(total for _, total in best)]


def _of(region: int, tables: list[Any]) -> list[Any]:
    return tables[region::_REGIONS]


def serial() -> list[int]:
    tables = [clean(extract(shop)) for shop in range(_SHOPS)]
    return report(*(join(*_of(region, tables)) for region in range(_REGIONS)))


def raylike(ray: Any) -> list[int]:
    read, tidy, merge, tell = map(ray.remote, (extract, clean, join, report))
    tables = [tidy.remote(read.remote(shop)) for shop in range(_SHOPS)]
    answer: list[int] = ray.get(
        tell.remote(*(merge.remote(*_of(region, tables)) for region in range(_REGIONS)))
    )
    return answer


def dask(client: Any) -> list[int]:
    tables = [
        client.submit(clean, client.submit(extract, shop, pure=False), pure=False) for shop in range(_SHOPS)
    ]
    regions = [client.submit(join, *_of(region, tables), pure=False) for region in range(_REGIONS)]
    answer: list[int] = client.submit(report, *regions, pure=False).result()
    return answer


def futures(executor: Any) -> list[int]:
    tables = list(executor.map(clean, executor.map(extract, range(_SHOPS))))
    regions = [executor.submit(join, *_of(region, tables)) for region in range(_REGIONS)]
    return report(*(region.result() for region in regions))


def pool(pool: Any) -> list[int]:
    tables = pool.map(clean, pool.map(extract, range(_SHOPS)))
    return report(*pool.starmap(join, [_of(region, tables) for region in range(_REGIONS)]))


def joblib(parallel: Any, delayed: Any) -> list[int]:
    raw = parallel(delayed(extract)(shop) for shop in range(_SHOPS))
    tables = parallel(delayed(clean)(rows) for rows in raw)
    return report(*parallel(delayed(join)(*_of(region, tables)) for region in range(_REGIONS)))
