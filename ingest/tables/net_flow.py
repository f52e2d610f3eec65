"""net_flow: who sent how many bytes to whom, as a network sensor or a cloud saw it."""

from fleetmark.table import Column, Table

NET_FLOW = Table(
    name="net_flow",
    doc="Network flows. A connection seen from outside has both directions in one row (Zeek), a "
    "cloud's flow record has one direction.",
    grain=("cluster", "source", "flow_id"),
    time="ts",
    columns=(
        Column("cluster", "VARCHAR", "cluster (or account) the log belongs to"),
        Column("source", "VARCHAR", "log format the row was read from: zeek_conn, vpc_flow"),
        Column(
            "flow_id",
            "VARCHAR",
            "Zeek's uid; for flow records interface, addresses, ports, protocol and start",
        ),
        Column("ts", "TIMESTAMP", "start of the flow, or of the window it was counted in"),
        Column("end_ts", "TIMESTAMP", "its end; NULL: not logged"),
        Column("src_ip", "VARCHAR", "sender; who opened the connection in Zeek"),
        Column("src_port", "INTEGER", "sender's port; NULL: none"),
        Column("dst_ip", "VARCHAR", "receiver"),
        Column("dst_port", "INTEGER", "receiver's port"),
        Column("packet_src_ip", "VARCHAR", "sender in the packet itself, behind a NAT gateway"),
        Column("packet_dst_ip", "VARCHAR", "receiver in the packet itself"),
        Column("protocol", "VARCHAR", "tcp, udp, icmp or the IANA number"),
        Column("service", "VARCHAR", "application protocol, where recognised"),
        Column(
            "sent_bytes",
            "BIGINT",
            "bytes from src to dst: payload in Zeek, IP bytes where it has no payload count and "
            "in flow records",
            "bytes",
        ),
        Column("received_bytes", "BIGINT", "bytes from dst to src; NULL: own record", "bytes"),
        Column("sent_packet_count", "BIGINT", "packets from src to dst", "count"),
        Column("received_packet_count", "BIGINT", "packets from dst to src", "count"),
        Column("missed_bytes", "BIGINT", "bytes the sensor did not see: lowers trust", "bytes"),
        Column("action", "VARCHAR", "accept or reject; NULL: not logged"),
        Column("conn_state", "VARCHAR", "Zeek's state, e.g. SF"),
        Column("direction", "VARCHAR", "ingress or egress, as logged"),
        Column("interface_id", "VARCHAR", "network interface"),
        Column("instance_id", "VARCHAR", "instance of the interface"),
        Column("vpc_id", "VARCHAR", "network"),
        Column("subnet_id", "VARCHAR", "subnet"),
        Column("region", "VARCHAR", "region"),
        Column("account", "VARCHAR", "account of the interface"),
        Column("src_service", "VARCHAR", "cloud service of the sender's address"),
        Column("dst_service", "VARCHAR", "cloud service of the receiver's address, e.g. S3"),
        Column("traffic_path", "SMALLINT", "path of egress as the provider numbers it"),
    ),
)
