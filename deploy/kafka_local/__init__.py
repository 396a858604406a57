"""One or three Apache Kafka nodes on loopback, from the jars that Maven Central serves."""
