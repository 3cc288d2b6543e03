# shellcheck shell=bash disable=SC2034
# Apache Kafka from Maven Central: one node that is broker and controller. Its ports, from the first on: for clients; of
# the controller; for clients that come through a proxy; where they are told that the broker is, so that tests put their
# proxy there, and nothing of ours listens; for clients with a name and a password (both `pillarbox`); for such over TLS,
# with a certificate that is signed by itself.

KAFKA=4.3.1
variable=PILLARBOX_TEST_KAFKA_BROKERS
default_port=19092
account=nobody
ports=6
patience=180

install_server() {
    java_program >/dev/null || install_packages "$(first_package openjdk-17-jre-headless default-jre-headless)"
    have kcat || install_packages kcat
    download "kafka-$KAFKA" fetch_kafka
}

# Kafka 4 needs Java 17 or later.
java_program() {
    local java version
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java)" /usr/lib/jvm/*/bin/java; do
        version=$("$java" -version 2>&1 | sed -nE '1s/.*"([0-9]+).*/\1/p')
        if ((${version:-0} >= 17)); then
            printf '%s' "$java"
            return
        fi
    done 2>/dev/null
    return 1
}

# Without the bridge to Log4j the broker would log nothing.
fetch_kafka() {
    cat >"$1/pom.xml" <<POM
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>pillarbox</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>$KAFKA</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId>
      <artifactId>log4j-slf4j-impl</artifactId>
      <version>2.25.4</version>
    </dependency>
  </dependencies>
</project>
POM
    maven copy-dependencies -f "$1/pom.xml" -DoutputDirectory="$1/libs" -DincludeScope=runtime
}

url() {
    printf '127.0.0.1:%s' "$PORT"
}

prepare() {
    give_certificate
    cat "$DIR/key.pem" "$DIR/cert.pem" | confide "$DIR/server.pem"
    [[ -d $DIR/data ]] || format || return
    write_settings "$DIR/data"
}

format() {
    make_data "$DIR/data.new"
    write_settings "$DIR/data.new"
    choose_java
    as_account "${JAVA[@]}" kafka.tools.StorageTool format \
        -t "$(head -c 16 /dev/urandom | base64 | tr '+/' '-_' | head -c 22)" -c "$DIR/server.properties" \
        --add-scram 'SCRAM-SHA-512=[name=pillarbox,password=pillarbox]' || return
    mv "$DIR/data.new" "$DIR/data"
}

write_settings() {
    local at=127.0.0.1 plain scram
    plain='org.apache.kafka.common.security.plain.PlainLoginModule required user_pillarbox="pillarbox";'
    scram='org.apache.kafka.common.security.scram.ScramLoginModule required;'
    cat >"$DIR/server.properties" <<CONF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((PORT + 1))
listeners=PLAINTEXT://$at:$PORT,CONTROLLER://$at:$((PORT + 1)),PROXIED://$at:$((PORT + 2)),NAMED://$at:$((PORT + 4)),SECURED://$at:$((PORT + 5))
advertised.listeners=PLAINTEXT://$at:$PORT,PROXIED://$at:$((PORT + 3)),NAMED://$at:$((PORT + 4)),SECURED://$at:$((PORT + 5))
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT,NAMED:SASL_PLAINTEXT,SECURED:SASL_SSL
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.named.plain.sasl.jaas.config=$plain
listener.name.named.scram-sha-512.sasl.jaas.config=$scram
listener.name.secured.plain.sasl.jaas.config=$plain
listener.name.secured.scram-sha-512.sasl.jaas.config=$scram
listener.name.secured.ssl.keystore.type=PEM
listener.name.secured.ssl.keystore.location=$DIR/server.pem
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs=$1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
CONF
}

# Sets JAVA, the beginning of each command.
choose_java() {
    JAVA=("$(java_program)" -cp "$SERVICES/downloads/kafka-$KAFKA/libs/*" -Dlog4j2.level=WARN
        -Xms256m -Xmx512m -XX:+UseSerialGC)
}

serve() {
    choose_java
    become_server "${JAVA[@]}" kafka.Kafka "$DIR/server.properties"
}

# Asks for the metadata.
answers() {
    kcat -b "127.0.0.1:$PORT" -L -m 5 >/dev/null 2>&1
}
