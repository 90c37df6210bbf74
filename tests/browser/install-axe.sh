#!/bin/sh
# Fetch axe-core, which checks pages for accessibility, by its package name; say so where that is not possible.
folder=$(dirname "$0")/../../out/axe
[ -f "$folder/node_modules/axe-core/axe.min.js" ] && exit 0
if command -v npm >/dev/null 2>&1; then
  mkdir -p "$folder"
  timeout 60 npm install --silent --no-audit --no-fund --no-save --prefix "$folder" axe-core@4 >/dev/null 2>&1 && exit 0
fi
echo "No axe-core found or installed: the tests of accessibility will be skipped"
exit 0
