"""Crawl some sites, page by page, politely."""

import time

import sundog


@sundog.remote(max_retries=2)
def download(url, timeout=5):
    time.sleep(0.06 if "news" in url else 0.04)  # the network
    return {"url": url, "links": len(url), "body": "x" * 2000}


class Crawler:
    def __init__(self, sites, pages):
        self.sites, self.pages = sites, pages
        self.seen = {}
        self.errors = []

    def crawl(self):
        urls = [f"https://{site}/page/{page}" for site in self.sites for page in range(self.pages)]
        refs = [download.remote(url) for url in urls]
        for url, ref in zip(urls, refs):
            try:
                result = sundog.get(ref, timeout=10)
            except sundog.exceptions.SundogError as error:
                self.errors.append((url, error))
                continue
            self.seen[result["url"]] = result["links"]
        return self.seen


if __name__ == "__main__":
    sundog.init(num_cpus=4)
    crawler = Crawler(["news.example", "blog.example", "shop.example"], 9)
    print(len(crawler.crawl()), "pages", len(crawler.errors), "errors")
