#!/usr/bin/env bash
# Fetches Apache Kafka (a JVM broker) from Maven Central into a folder, once: kafka.sh FOLDER.
# Needs java 17 and mvn; says so, and fails, where they are missing.
set -euo pipefail
version=4.1.0
folder=$1/kafka-$version
[ -e "$folder/.complete" ] && exit 0
command -v java >/dev/null && command -v mvn >/dev/null || { echo "java or mvn is missing" >&2; exit 1; }
mkdir -p "$folder"
cat >"$folder/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>fleetmark</groupId><artifactId>broker</artifactId><version>1</version><dependencies><dependency>
<groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$version</version>
</dependency></dependencies></project>
POM
(cd "$folder" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >mvn.log 2>&1) || { tail -n 3 "$folder/mvn.log" >&2; exit 1; }
touch "$folder/.complete"
