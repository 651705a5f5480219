// What scaling policies decided last.

import { Card, Group, Text, Title } from "@mantine/core";
import { Link } from "react-router";
import { useDecisions } from "../../api/scaling";
import { Loaded } from "../../ui/Loaded";
import { Ago } from "../../ui/zone";
import { Action, changeOf, usePolicyName } from "../scaling/words";

const NEWEST = 5;

export function Scaled() {
  const decisions = useDecisions("", NEWEST);
  const policyName = usePolicyName();
  return (
    <Card withBorder padding="md" component="section" aria-label="Scaling decisions">
      <Group justify="space-between" mb="xs" wrap="nowrap">
        <Title order={2} size="h5">
          Scaling decisions
        </Title>
        <Link to="/scaling/decisions">All</Link>
      </Group>
      <Loaded
        query={decisions}
        empty={(all) =>
          all.length === 0 && (
            <Text size="sm" c="dimmed">
              None. <Link to="/scaling">Policies</Link>
            </Text>
          )
        }
      >
        {(all) => (
          <table className="data" aria-label="Newest decisions">
            <tbody>
              {all.map((decision) => (
                <tr key={decision.id}>
                  <td style={{ width: "34%" }}>
                    <Link to={`/scaling/${decision.policyId}`}>{policyName(decision.policyId)}</Link>
                  </td>
                  <td>
                    <Link to={`/scaling/decisions?open=${decision.id}`} title={decision.outcome}>
                      {changeOf(decision)}
                    </Link>
                  </td>
                  <td style={{ width: "98px" }}>
                    <Action>{decision.action}</Action>
                  </td>
                  <td className="numeric" style={{ width: "96px" }}>
                    <Ago at={decision.ts} />
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
