# A server of studies. Build: docker build -t surepick .   Run: see docs/server.md.
FROM python:3.12-slim

WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src ./src
COPY examples/naive ./examples/naive
COPY tools/pypi_readme.py ./tools/pypi_readme.py
RUN pip install --no-cache-dir -c constraints.txt '.[app,server,study,postgres,files,tables,report]' \
    && useradd --create-home --uid 1000 surepick \
    && mkdir /data && chown surepick /data

# No root; studies are in a volume.
USER surepick
WORKDIR /data
VOLUME /data
ENV SUREPICK_STORAGE=/data/surepick.db
EXPOSE 8080

HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/readyz', timeout=4)"]

ENTRYPOINT ["surepick"]
# Other machines come in by a token: `docker run --rm -v studies:/data surepick token create --role admin` before.
CMD ["serve", "--host", "0.0.0.0"]
