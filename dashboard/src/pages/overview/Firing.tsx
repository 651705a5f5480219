// What fires now: how many, and the newest.

import { Card, Group, Text, Title } from "@mantine/core";
import { Link } from "react-router";
import { ALERTS_SHOWN, useAlerts } from "../../api/alerts";
import { count } from "../../ui/format";
import { Loaded } from "../../ui/Loaded";
import { Ago } from "../../ui/zone";
import { pathOf, Resource, Severity } from "../alerts/words";

const NEWEST = 5;

export function Firing() {
  const alerts = useAlerts("firing");
  return (
    <Card withBorder padding="md" component="section" aria-label="Alerts firing">
      <Group justify="space-between" mb="xs" wrap="nowrap">
        <Title order={2} size="h5">
          Alerts firing
          {alerts.data && `: ${count(alerts.data.length)}${alerts.data.length >= ALERTS_SHOWN ? " or more" : ""}`}
        </Title>
        <Link to="/alerts?state=firing">All</Link>
      </Group>
      <Loaded
        query={alerts}
        empty={(all) =>
          all.length === 0 && (
            <Text size="sm" c="dimmed">
              None. <Link to="/alerts/rules">Rules</Link>
            </Text>
          )
        }
      >
        {(all) => (
          <table className="data" aria-label="Newest alerts">
            <tbody>
              {all.slice(0, NEWEST).map((alert) => (
                <tr key={alert.id}>
                  <td style={{ width: "38%" }}>
                    <Link to={pathOf(alert)} title={alert.message}>
                      {alert.ruleName}
                    </Link>
                  </td>
                  <td>
                    <Resource alert={alert} />
                  </td>
                  <td className="wide" style={{ width: "90px" }}>
                    <Severity>{alert.severity}</Severity>
                  </td>
                  <td className="numeric" style={{ width: "96px" }}>
                    <Ago at={alert.firedAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Loaded>
    </Card>
  );
}
