// Where a pod is shown.

interface Named {
  agentId: string;
  namespace: string;
  name: string;
}

/** The address of a pod's page. */
export const pathOf = ({ agentId, namespace, name }: Named) =>
  `/pods/${agentId}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
