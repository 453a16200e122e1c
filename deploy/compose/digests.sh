#!/usr/bin/env bash
# Look up the digests of the images that compose.yaml names, and write them to .env: ./digests.sh
# The first run decides what you trust. Keep the file, and run it again only to take later images.
set -euo pipefail
cd "$(dirname "$0")"

digest() { docker buildx imagetools inspect "$1" --format '{{.Manifest.Digest}}'; }
{
  echo "KAFKA_DIGEST=$(digest apache/kafka:4.1.0)"
  echo "PROMETHEUS_DIGEST=$(digest prom/prometheus:v3.5.0)"
  echo "GRAFANA_DIGEST=$(digest grafana/grafana:12.1.0)"
  echo "PYTHON_DIGEST=$(digest python:3.12-slim-bookworm)"
} > .env
