// What stands in the place of usage where nobody measures it.

import { Alert } from "@mantine/core";

export function NoProvider() {
  return (
    <Alert variant="outline" color="gray" mb="sm" title="No metrics provider in this cluster">
      CPU and memory are shown once something serves the metrics API, such as metrics-server.
    </Alert>
  );
}
