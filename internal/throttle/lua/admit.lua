-- admitted_at returns when a token was admitted, if that is remembered: a log knows every token in it, a hash its
-- latest one.
local function admitted_at(plan, token)
  local at
  if plan.state_log.max > 0 then
    if plan.algorithm == ROLLING then
      at = newest_of(plan.state, plan.state_log) and redis.call('ZSCORE', plan.state, token)
    elseif counting().of(plan).token == token then
      at = counting().of(plan).at
    end
  end
  if not at and plan.cap_log.max > 0 and newest_of(plan.cap, plan.cap_log) then
    at = redis.call('ZSCORE', plan.cap, token)
  end
  for _, cap in ipairs(plan.named) do at = at or redis.call('ZSCORE', cap.key, token) end
  return tonumber(at or nil)
end

-- admit decides one admission for now, and charges it when it may happen; a refusal changes nothing. A token whose
-- admission is remembered gets the same result again. It returns 1 or 0, the moment, and what decides (0: nothing,
-- see opened).
local function admit(plan, now, token)
  local earlier = admitted_at(plan, token)
  if earlier then return 1, earlier, 0 end
  local at, why = decide_now(plan, now)
  if at > now then return 0, at, why end
  charge(plan, now, at, token)
  return 1, at, 0
end

