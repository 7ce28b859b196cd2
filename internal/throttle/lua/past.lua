-- How many admissions of a log are read at most for each rule: those that fall out of its window first. So many
-- admissions to come can be planned exactly.
local PAST = 2500

-- put_stretch appends a stretch of a log to a list, newest first: the rank of its first admission (0: the newest), how
-- many there are, and their moments. When the log ends before the stretch, it is empty, and begins where the log ends.
local function put_stretch(list, key, first, last)
  local found, place, n = redis.call('ZREVRANGE', key, digits(first), digits(last), 'WITHSCORES'), #list + 2, 0
  list[place - 1], list[place] = first, 0
  for i = 2, #found, 2 do
    local at = tonumber(found[i])
    if at <= 0 then break end -- these say how much the log must remember
    n = n + 1
    list[place + n] = at
  end
  list[place] = n
  if n == 0 and first > 0 then list[place - 1] = math.min(first, math.max(0, redis.call('ZCARD', key) - 2)) end
end

-- put_log appends what those rules of a plan see of a log that count in it: how many stretches, and each.
local function put_log(list, key, plan, counts)
  local most, place, n = 0, #list + 1, 0
  list[place] = 0
  for _, rule in ipairs(plan.rules) do
    if counts(rule) then most = math.max(most, rule.max) end
  end
  if most > 0 then
    n = 1
    put_stretch(list, key, 0, math.min(most, PAST) - 1)
  end
  for _, rule in ipairs(plan.rules) do
    if counts(rule) and rule.max > PAST then
      n = n + 1
      put_stretch(list, key, math.max(PAST, rule.max - PAST), rule.max - 1)
    end
  end
  list[place] = n
end

-- put_past appends what decides the admissions to come under a plan, as Windows.Read in Go takes it in: of a rolling plan
-- the log; of others the moment from which a gap counts, then of each limit where its counter begins, and its load
-- (-1: it counts nothing yet). Then come the log of the cap and those of named caps. Limits over one window have one counter.
local function put_past(list, plan)
  if plan.algorithm == ROLLING then
    put_log(list, plan.state, plan, function(rule) return rule.kind ~= KIND_CAP and not rule.named end)
  else
    local c = counting().of(plan)
    list[#list + 1] = c.gap or -1
    for _, rule in ipairs(plan.rules) do
      if rule.kind == KIND_LIMIT then
        local counter = c[rule] or {}
        list[#list + 1] = counter.from or -1
        list[#list + 1] = counter.load or 0
      end
    end
  end
  put_log(list, plan.cap, plan, function(rule) return rule.kind == KIND_CAP end)
  for i, cap in ipairs(plan.named) do
    put_log(list, cap.key, plan, function(rule) return rule.named == i end)
  end
end
