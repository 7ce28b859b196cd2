-- What overflow ladders do with what waits too long for its slot. This stands between grants.lua and take.lua. A ladder is
-- here a list of its rungs that say wait, see WaitLadder: wait in µs, action, and as text; `off` is the least urgent
-- priority that it does not hold for, `least` the shortest wait of a rung that does something.

-- overflow.read reads a ladder.
function overflow.read(text)
  local ladder = { off = tonumber(string.match(text, '^%d+')) }
  for wait, action in string.gmatch(text, '(%d+) ([%a_]+)') do
    ladder[#ladder + 1] = { wait = tonumber(wait), action = action, text = 'wait ' .. wait .. ' ' .. action }
    ladder.least = math.min(ladder.least or math.huge, tonumber(wait))
  end
  return ladder
end

-- overflow.grows reports whether a rung lets a backlog grow. Its second result is true when the backlog has to go as
-- digests now, which it did not before.
function overflow.grows(backlog, rung)
  if rung.action == 'digest' then return true, not backlog.bundled end
  return rung.action == 'keep', false
end

-- overflow.first does what a ladder says of the first of a backlog, whose slot is so far away. It returns nil when that
-- is nothing, and false when nothing must end in this round.
function overflow.first(agenda, backlog, ladder, distance)
  local above = 0
  for _, rung in ipairs(ladder) do
    local grows, bundles = overflow.grows(backlog, rung)
    if rung.wait <= above or distance <= rung.wait then
      -- another one may hold
    elseif grows and not bundles then
      above = rung.wait
    else
      if not may_end(agenda) then return false end
      if grows then
        overflow.bundle(agenda, backlog, backlog.first.id)
        return true
      elseif rung.action ~= 'replace' then
        budget = budget - 1
        overflow.end_one(agenda, backlog.first.id, S.expired, rung.text, retention)
        return true
      end
      local _, decided = overflow.replace_older(agenda, backlog, ladder.off, nil, rung.text, retention)
      if decided then return true end
    end
  end
end

do
  -- drop_last ends the last of a backlog; it returns false when no ladder holds for that.
  local function drop_last(agenda, backlog, off, rung)
    local last = redis.call('ZRANGE', backlog.key, '-1', '-1', 'WITHSCORES')
    if math.floor(tonumber(last[2]) / BAND) + 1 <= off then return false end
    overflow.end_one(agenda, last[1], S.expired, rung.text, retention)
    return true
  end

  -- cut does what a rung says until no more are in a backlog than can go in time. It returns false when nothing must end
  -- in this round.
  local function cut(agenda, backlog, off, rung, most)
    while size_of(backlog) > most do
      if not may_end(agenda) then return false end
      local did
      if rung.action == 'drop_new' then
        did = drop_last(agenda, backlog, off, rung)
      elseif rung.action == 'drop_oldest' then
        did = overflow.drop_oldest(agenda, backlog, off + 1, rung.text, retention)
      else
        overflow.replace_older(agenda, backlog, off, nil, rung.text, retention)
      end
      if not did then return true end
      budget = budget - 1
    end
    return true
  end

  -- at_once returns how many of a backlog go as one at most, as it stands.
  local function at_once(backlog, digest)
    if not digest or digest.bundles and not backlog.bundled and (digest.by_ladder or backlog.why >= 0) then return 1 end
    return digest.most
  end

  -- overflow.shorten does what a ladder says of those of a backlog that the limits can't let go in time after its
  -- first. It returns false when it must not end one, or a budget is used up, or the first has ended, or the backlog
  -- goes as digests from now on: then another round decides.
  function overflow.shorten(agenda, backlog, category_settings)
    local ladder = category_settings.ladder
    backlog.bounded = nil
    local before, above = size_of(backlog), 0
    for _, rung in ipairs(ladder) do
      local grows, bundles = overflow.grows(backlog, rung)
      local most = rung.wait > above and
        overflow.most_in_time(backlog, rung.wait, at_once(backlog, category_settings.digest)) or 0
      if most > 0 and grows and size_of(backlog) > most then
        if bundles then
          if may_end(agenda) then overflow.bundle(agenda, backlog, backlog.first.id) end
          return false
        end
        above = rung.wait
      elseif most > 0 and (bundles or not grows) then
        backlog.bounded = math.min(backlog.bounded or most, most)
        if not grows and not cut(agenda, backlog, ladder.off, rung, most) then return false end
      end
    end
    return size_of(backlog) == before or redis.call('ZSCORE', backlog.key, backlog.first.id) ~= false
  end
end
