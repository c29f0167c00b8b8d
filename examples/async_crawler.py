"""Crawl a small web site with an asyncio actor: many requests under way in one process.

The site is served from this program on the loopback address, so nothing leaves the machine. Every page links
to others; the crawl goes on until no page is new. A second asyncio actor keeps the index meanwhile.
"""

import asyncio
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import ray

PAGES = 60
CONCURRENT_REQUESTS = 8


def links_of(page: int) -> list[int]:
    return [target for target in (2 * page + 1, 2 * page + 2, page * page % PAGES) if target < PAGES]


class Site(BaseHTTPRequestHandler):
    """Page n is at /n; every seventh page is missing though others point to it."""

    def do_GET(self) -> None:
        page = int(self.path.strip("/"))
        if page and page % 7 == 0:
            self.send_error(404)
            return
        anchors = "".join(f'<a href="/{target}">{target}</a>' for target in links_of(page))
        body = f"<title>Page {page}</title>{anchors}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not worth a line each."""


@ray.remote
class Index:
    def __init__(self) -> None:
        self.titles: dict[str, str] = {}
        self.missing: set[str] = set()

    async def add(self, path: str, title: str | None) -> None:
        if title is None:
            self.missing.add(path)
        else:
            self.titles[path] = title

    async def summary(self) -> tuple[int, list[str]]:
        return len(self.titles), sorted(self.missing, key=lambda path: int(path.strip("/")))


@ray.remote
class Crawler:
    def __init__(self, port: int, index: "ray.actor.ActorHandle") -> None:
        self.port = port
        self.index = index
        self.slots = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def fetch(self, path: str) -> list[str]:
        """The links of one page; called by the driver many times without waiting."""
        async with self.slots:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            await writer.drain()
            answer = (await reader.read()).decode()
            writer.close()
            await writer.wait_closed()
        found = answer.split("\r\n", 1)[0].split()[1] == "200"
        title = re.search("<title>(.*?)</title>", answer)
        await self.index.add.remote(path, title.group(1) if found and title else None)
        return re.findall('href="(.*?)"', answer) if found else []


def crawl(crawler: "ray.actor.ActorHandle") -> set[str]:
    seen = {"/0"}
    under_way = [crawler.fetch.remote("/0")]
    while under_way:
        done, under_way = ray.wait(under_way)
        for link in ray.get(done[0]):
            if link not in seen:
                seen.add(link)
                under_way.append(crawler.fetch.remote(link))
    return seen


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ray.init()
    index = Index.remote()
    seen = crawl(Crawler.remote(server.server_port, index))
    pages, missing = ray.get(index.summary.remote())
    print(f"{len(seen)} addresses seen, {pages} pages read")
    print(f"missing: {' '.join(missing)}")
    ray.shutdown()
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
